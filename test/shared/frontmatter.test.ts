import {
  type FrontmatterResult,
  MAX_ARTIFACT_BYTES,
  readFrontmatter,
  writeFrontmatter,
} from "@orchestrator/shared/frontmatter.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const read = (text: string): FrontmatterResult => readFrontmatter(bytes(text));
const dataOf = (text: string): unknown => {
  const result = read(text);
  return result.kind === "ok" ? { ...result.data } : result.message;
};
const messageOf = (content: string | Uint8Array): string => {
  const result = readFrontmatter(typeof content === "string" ? bytes(content) : content);
  if (result.kind === "ok") return `read ${JSON.stringify(result.data)}`;
  expect(result.message.startsWith(`line ${result.line}: `)).toBe(true);
  return result.message;
};

describe("what is accepted", () => {
  test.each<[name: string, text: string, data: Record<string, unknown>]>([
    ["plain", "---\nstatus: done\n---\n", { status: "done" }],
    ["a BOM", "\ufeff---\nstatus: done\n---\n", { status: "done" }],
    ["CRLF", "---\r\nstatus: done\r\nb: 'x'\r\n---\r\nbody\r\n", { status: "done", b: "x" }],
    ["a BOM and CRLF", "\ufeff---\r\nstatus: done\r\n---\r\n", { status: "done" }],
    ["blanks after the opening line", "--- \t \nstatus: done\n---\n", { status: "done" }],
    ["blanks after the closing line", "---\nstatus: done\n---\t  \nbody", { status: "done" }],
    ["blanks before the CR", "--- \r\nstatus: done \t\r\n--- \r\n", { status: "done" }],
    ["blanks after a value", "---\nstatus: done   \nother: x\t\n---\n", { status: "done", other: "x" }],
    ["a tab after the colon", "---\nstatus:\tdone\n---\n", { status: "done" }],
    ["lines of blanks", "---\nstatus: done\n  \n\t\n\nother: x\n---\n", { status: "done", other: "x" }],
    ["single quotes", "---\nstatus: 'it''s done'\n---\n", { status: "it's done" }],
    ["double quotes", '---\nstatus: "SUCC\\u0045SS"\n---\n', { status: "SUCCESS" }],
    ["quoted keys", "---\n\"status\": done\n'other': x\n---\n", { status: "done", other: "x" }],
    ["comments", "---\n# first\nstatus: done # why\n# last\n---\n", { status: "done" }],
    ["a number sign in a word", "---\nstatus: a#b\n---\n", { status: "a#b" }],
    ["words of YAML 1.1", "---\na: NO\nb: yes\nc: off\nd: y\n---\n", { a: "NO", b: "yes", c: "off", d: "y" }],
    ["a date", "---\ncreated_at: 2026-11-29\n---\n", { created_at: "2026-11-29" }],
    ["a time", "---\na: 2026-11-29T10:00:00Z\nb: 12:30:00\n---\n", { a: "2026-11-29T10:00:00Z", b: "12:30:00" }],
    ["a version", "---\na: 1.2.3\nb: n/a\n---\n", { a: "1.2.3", b: "n/a" }],
    ["quoted numbers and words", "---\na: '1'\nb: \"true\"\nc: 'null'\n---\n", { a: "1", b: "true", c: "null" }],
    ["a tag that says text", "---\na: !!str 1\n---\n", { a: "1" }],
    [
      "what is not text stays what it is",
      "---\na: 1\nb: true\nc: null\nd: [x, 2]\ne: { f: g }\nh: 1e3\ni:\n---\n",
      { a: 1, b: true, c: null, d: ["x", 2], e: { f: "g" }, h: 1000, i: null },
    ],
    ["block text", "---\na: |\n  one\n  ---\n  two\nb: x\n---\n", { a: "one\n---\ntwo\n", b: "x" }],
    ["a tab inside block text", "---\na: |\n  make:\n  \tcc\n---\n", { a: "make:\n\tcc\n" }],
    ["a fence inside a value", "---\na: x --- y\nb: ---x\n---\n", { a: "x --- y", b: "---x" }],
    ["more than three dashes", "---\na: x\nb:\n  ----\n---\n", { a: "x", b: "----" }],
    ["no newline at the end", "---\nstatus: done\n---", { status: "done" }],
    ["an end-of-document line", "---\nstatus: done\n...\n---\n", { status: "done" }],
    ["keys that look like numbers", "---\n1: a\ntrue: b\n---\n", { "1": "a", true: "b" }],
    ["a few aliases", "---\na: &x [one]\nb: *x\n---\n", { a: ["one"], b: ["one"] }],
    ["no merging of mappings", "---\na: &x { b: c }\n<<: *x\n---\n", { a: { b: "c" }, "<<": { b: "c" } }],
    ["other alphabets", "---\nstatus: готово\n名: 値\n---\n", { status: "готово", 名: "値" }],
  ])("%s", (_, text, data) => {
    expect(dataOf(text)).toEqual(data);
  });

  test("the body is everything behind the closing line, as it stands, and is never searched", () => {
    const body = "\r\n# Title\n---\nreview_status: APPROVED\n---\n\u0000\u001b[31m";
    const result = read(`---\nstatus: done\n--- \r\n${body}`);
    expect(result).toMatchObject({ kind: "ok", body });
    expect(result.kind === "ok" && Object.keys(result.data)).toEqual(["status"]);
  });

  test("the line and the source of each key are known", () => {
    const result = read("---\n# comment\na: 0123\n\nb: 'x'\nc: [1]\n---\n");
    expect(result.kind === "ok" && Object.fromEntries(result.fields)).toEqual({
      a: { line: 3, source: "0123" },
      b: { line: 5, source: null },
      c: { line: 6, source: null },
    });
  });

  test("a file of exactly the greatest size", () => {
    const head = "---\nstatus: done\n---\n";
    expect(read(head + "x".repeat(MAX_ARTIFACT_BYTES - head.length)).kind).toBe("ok");
  });

  test("names that every object inherits are keys like others and reach no prototype", () => {
    const result = read(
      "---\n__proto__: { polluted: yes }\nconstructor: x\nb: { __proto__: { polluted: yes } }\n---\n",
    );
    expect(result.kind === "ok" && Object.keys(result.data)).toEqual(["__proto__", "constructor", "b"]);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    const plain = read("---\na: x\n---\n");
    expect(plain.kind === "ok" && plain.data["toString"]).toBeUndefined();
  });
});

const NO_OPENING = "line 1: expected a line of '---' that opens the frontmatter";
const NO_CLOSING = "line 1: the frontmatter that opens here has no closing line of '---'";
const TAB = "a tab is used as indentation; use spaces";
const notMapping = (found: string): string => `line 2: expected a mapping (lines of 'key: value'), found ${found}`;

describe("what is an error, and on which line", () => {
  test.each<[name: string, text: string, message: string]>([
    ["an empty file", "", NO_OPENING],
    ["no frontmatter", "# Title\n", NO_OPENING],
    ["an empty line before it", "\n---\na: x\n---\n", NO_OPENING],
    ["a blank before the dashes", " ---\na: x\n---\n", NO_OPENING],
    ["two dashes", "--\na: x\n--\n", NO_OPENING],
    ["text behind the dashes", "--- yaml\na: x\n---\n", NO_OPENING],
    ["two BOMs", "\ufeff\ufeff---\na: x\n---\n", NO_OPENING],
    ["no closing line", "---\na: x\n", NO_CLOSING],
    ["only the opening line", "---", NO_CLOSING],
    ["a closing line that is indented", "---\na: x\n ---\n", NO_CLOSING],
    ["four dashes", "---\na: x\n----\n", NO_CLOSING],
    ["nothing in it", "---\n---\n", notMapping("nothing")],
    ["only a comment", "---\n# a: x\n---\n", notMapping("nothing")],
    ["a list", "---\n- a\n---\n", notMapping("a list")],
    ["a text", "---\nhello\n---\n", notMapping('the text "hello"')],
    ["a number", "---\n42\n---\n", notMapping("the number 42")],
    ["a duplicate key", "---\na: x\nb: y\na: z\n---\n", 'line 4: duplicate key "a", first on line 2'],
    ["a duplicate in other quotes", "---\na: x\n'a': z\n---\n", 'line 3: duplicate key "a", first on line 2'],
    ["a duplicate further in", "---\nb:\n  a: x\n  a: z\n---\n", 'line 4: duplicate key "a", first on line 3'],
    ["a duplicate by value", "---\n1: x\n'1': z\n---\n", 'line 3: duplicate key "1", first on line 2'],
    ["a tab before a key", "---\n\ta: x\n---\n", `line 2: ${TAB}`],
    ["a tab before a nested key", "---\na: x\nb:\n\tc: y\n---\n", `line 4: ${TAB}`],
    ["a tab before a list entry", "---\na:\n\t- x\n---\n", `line 3: ${TAB}`],
    ["blanks and a tab", "---\na:\n  \t- x\n---\n", `line 3: ${TAB}`],
    ["a tab before a continued value", "---\na: x\n\ty\n---\n", `line 3: ${TAB}`],
    ["a tab before block text", "---\na: |\n\tx\n---\n", `line 3: ${TAB}`],
    ["a tab in CRLF", "---\r\na:\r\n\tb: x\r\n---\r\n", `line 3: ${TAB}`],
    ["an open double quote", '---\na: x\nb: "y\nc: z\n---\n', "line 3: a quotation mark is not closed"],
    ["an open single quote", "---\na: 'x\nc: z\n---\n", "line 2: a quotation mark is not closed"],
    [
      "a colon in a value",
      "---\na: x\ntitle: one: two\n---\n",
      "line 3: a second ': ' or '- ' in a line; put the value in quotes, or what it nests on lines of its own",
    ],
    [
      "a reserved first character",
      "---\na: @x\n---\n",
      "line 2: an unquoted value cannot begin with this character; put the value in quotes",
    ],
    ["a line without a colon", "---\na: x\nb\n---\n", "line 3: a ':', a ',' or a closing bracket is missing"],
    [
      "an unknown tag",
      "---\na: !secret x\n---\n",
      "line 2: a tag that is not accepted, or does not fit its value; put a value that begins with '!' in quotes",
    ],
    [
      "a tag of YAML 1.1",
      "---\na: x\nb: !!timestamp 2026-11-29\n---\n",
      "line 3: a tag that is not accepted, or does not fit its value; put a value that begins with '!' in quotes",
    ],
    [
      "a tag that names a program's type",
      "---\na: !!js/function 'return 1'\n---\n",
      "line 2: a tag that is not accepted, or does not fit its value; put a value that begins with '!' in quotes",
    ],
    [
      "a directive",
      "---\n%YAML 1.1\n--- {a: NO}\n---\n",
      "line 2: an unquoted value cannot begin with this character; put the value in quotes",
    ],
    ["a second document", "---\na: x\n--- b\n---\n", "line 3: a second YAML document; one is accepted"],
    [
      "text after the end of the document",
      "---\na: x\n...\nb: y\n---\n",
      "line 4: a second YAML document; one is accepted",
    ],
    ["a list as a key", "---\n? [a]\n: x\n---\n", "line 2: a key must be text"],
    ["an alias as a key", "---\na: &k x\n*k : y\n---\n", "line 3: a key must be text"],
    ["an alias without an anchor", "---\na: x\nb: *y\n---\n", "line 3: an alias that names no anchor before it"],
    ["an alias inside of itself", "---\na: &x\n  - *x\n---\n", "line 3: an alias inside of what it stands for"],
  ])("%s", (_, text, message) => {
    expect(messageOf(text)).toBe(message);
  });

  test("a file above the greatest size, with the line that passes it", () => {
    const head = "---\nstatus: done\n---\n";
    const text = `${head}${"y\n".repeat(10)}${"x".repeat(MAX_ARTIFACT_BYTES)}`;
    expect(messageOf(text)).toBe(`line 14: the file has ${text.length} bytes, at most 1048576 are accepted`);
  });

  test.each<[name: string, content: number[], line: number]>([
    ["a lone byte in the frontmatter", [...bytes("---\na: "), 0xff, ...bytes("\n---\n")], 2],
    ["Latin-1 in the body", [...bytes("---\na: x\n---\n\ncaf"), 0xe9, 0x0a], 5],
    ["a character cut at the end", [...bytes("---\na: x\n---\n"), 0xe2, 0x82], 4],
    ["a surrogate", [...bytes("---\na: x\n---\n\n\n"), 0xed, 0xa0, 0x80], 6],
    ["UTF-16", [0xff, 0xfe, 0x2d, 0x00, 0x2d, 0x00, 0x2d, 0x00, 0x0a, 0x00], 1],
  ])("not UTF-8: %s", (_, content, line) => {
    expect(messageOf(new Uint8Array(content))).toBe(`line ${line}: the file must be UTF-8 text, these bytes are not`);
  });
});

describe("frontmatter that is made to do harm", () => {
  const bomb = [
    "a: &a [x,x,x,x,x,x,x,x,x]",
    ..."bcdefghi".split("").map((name, index) => {
      const before = "abcdefgh"[index];
      return `${name}: &${name} [${Array(9).fill(`*${before}`).join(",")}]`;
    }),
  ].join("\n");

  test.each<[name: string, yaml: string, message: RegExp]>([
    ["brackets", `a: ${"[".repeat(60_000)}`, /^line 2: nested deeper than 64 levels$/],
    ["closed brackets", `a: ${"[".repeat(3000)}${"]".repeat(3000)}`, /^line 2: nested deeper than 64 levels$/],
    ["braces", `a: ${"{a: ".repeat(15_000)}`, /^line 2: nested deeper than 64 levels$/],
    ["explicit keys", "? ".repeat(30_000), /^line 2: nested deeper than 64 levels$/],
    ["indentation", Array.from({ length: 300 }, (_, i) => `${" ".repeat(i)}a:`).join("\n"), /^line 67: nested deeper/],
    ["aliases of aliases", bomb, /^line \d: more than (100 aliases|20000 values, aliases counted in full)$/],
    ["many aliases", `a: &a x\nb: [${"*a,".repeat(10_000)}]`, /^line 3: more than 100 aliases$/],
    [
      "large aliases",
      `a: &a [${"x,".repeat(1000)}]\nb: [${"*a,".repeat(50)}]`,
      /^line 2: more than 20000 values, aliases counted in full$/,
    ],
    [
      "a megabyte of keys",
      "k: v\n".repeat(100_000),
      /^line \d+: found 500005 bytes of YAML, at most 65536 are accepted$/,
    ],
  ])("%s", (_, yaml, message) => {
    expect(messageOf(`---\n${yaml}\n---\n`)).toMatch(message);
  });

  test("thousands of keys are read in time that grows with their number only", () => {
    const keys = Array.from({ length: 7000 }, (_, index) => `k${index}: v`);
    const result = read(`---\n${keys.join("\n")}\n---\n`);
    expect(result.kind === "ok" && Object.keys(result.data)).toHaveLength(7000);
  });

  test("any bytes give a result and not an exception", () => {
    const pieces = fc.constantFrom(
      "---\n",
      "--- \r\n",
      "a: ",
      "b:\n",
      "\t",
      "  ",
      "- ",
      "[",
      "]",
      "{",
      "}",
      "'",
      '"',
      "|\n",
    );
    const more = fc.constantFrom(
      "&x ",
      "*x",
      "!!str ",
      "!",
      "? ",
      ": ",
      "#",
      "\\",
      "%",
      "@",
      "\ufeff",
      "\0",
      "\n",
      "é",
      "<<: ",
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(pieces, more), { maxLength: 40 }), (parts) => {
        const result = read(`---\n${parts.join("")}\n---\n`);
        expect(["ok", "error"]).toContain(result.kind);
      }),
      { numRuns: 2000 },
    );
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (content) => void readFrontmatter(content)));
  });
});

describe("writing", () => {
  test("ordinary values stand without quotes", () => {
    const text = writeFrontmatter(
      { work_item: "ORCH-115", stage: "deploy-staging", model_used: "n/a", created_at: "2026-11-29", run_id: 9 },
      "\n# Log\n",
    );
    expect(text).toBe(
      "---\nwork_item: ORCH-115\nstage: deploy-staging\nmodel_used: n/a\ncreated_at: 2026-11-29\nrun_id: 9\n---\n\n# Log\n",
    );
  });

  test.each([
    "",
    " ",
    "true",
    "Null",
    "NO",
    "1",
    "1e5",
    "0x1F",
    "~",
    ".inf",
    "- a",
    "a: b",
    "a #b",
    "#a",
    "'",
    '"',
    "\\",
    "a\nb",
    "---",
    "\n---\n",
    "\t",
    "\r\n",
    "\0",
    "\u0085",
    "\u2028",
    "\ufeff",
    "\u007f",
    "\ud800",
    "@a",
    "!a",
    "&a",
    "*a",
    "%a",
    "{a",
    "[a",
    "a ",
    " a",
    "0123456789012345678901234567890123456789",
    "2026-11-29 ",
    "2026-13-99",
    "a\u001b[31m",
    "<<",
    "a  b",
  ])("%j is read back as it was", (value) => {
    expect(dataOf(writeFrontmatter({ key: value, last: "x" }, "body"))).toEqual({ key: value, last: "x" });
  });

  test("any text in values and body is read back as it was", () => {
    const text = fc.string({ unit: "binary", maxLength: 50 });
    fc.assert(
      fc.property(text, text, fc.string({ unit: "grapheme" }), (first, second, body) => {
        const result = read(writeFrontmatter({ first, second }, body));
        expect(result).toMatchObject({ kind: "ok", data: { first, second }, body: body.toWellFormed() });
      }),
      { numRuns: 2000 },
    );
  });

  test("what could not be read back is refused", () => {
    expect(() => writeFrontmatter({ "a b": "x" }, "")).toThrow(/^frontmatter key "a b": expected a name/);
    expect(() => writeFrontmatter({ a: 1.5 }, "")).toThrow(/^frontmatter key a: 1.5 is not a whole number$/);
    expect(() => writeFrontmatter({ a: "x".repeat(70_000) }, "")).toThrow(/bytes of YAML, at most 65536 are accepted$/);
    expect(() => writeFrontmatter({ a: "x" }, "x".repeat(MAX_ARTIFACT_BYTES))).toThrow(/at most 1048576 are accepted$/);
  });
});
