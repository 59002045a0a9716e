import {
  Composer,
  type CST,
  type ErrorCode,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  Parser,
} from "yaml";
import { yamlErrorText } from "./yaml_error_text.ts";

/**
 * The parser needs seconds for a megabyte of brackets or anchors, and nothing else moves in this process meanwhile. What
 * people write by hand is far below this.
 */
export const MAX_YAML_BYTES = 64 * 1024;
const MAX_DEPTH = 64;
const MAX_ALIASES = 100;
/** Aliases of aliases multiply: this many values in all. */
const MAX_NODES = 20_000;

export type YamlPath = readonly (string | number)[];

export type YamlReading =
  | {
      kind: "ok";
      /** Text, numbers, booleans, null, arrays, and objects without a prototype. */
      value: unknown;
      /** The line of a key or list entry, counted from 1; where there is none, that of the nearest one around it. */
      lineOf(path: YamlPath): number;
      /** An unquoted scalar as it stands in the text; null for anything else. */
      sourceOf(path: YamlPath): string | null;
    }
  | { kind: "error"; line: number; message: string };

/**
 * Reads one YAML 1.2 document of untrusted text with the core schema: an unquoted `NO` or a date is text, `true` is a
 * boolean, `1` a number. Unknown tags, duplicate keys and keys that are not text are errors. A message never holds a piece of
 * the text beside a key: the text may hold a secret.
 */
export const readYaml = (text: string): YamlReading => {
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_YAML_BYTES) {
    const line = Buffer.from(text).subarray(0, MAX_YAML_BYTES).toString("latin1").split("\n").length;
    return { kind: "error", line, message: `found ${bytes} bytes of YAML, at most ${MAX_YAML_BYTES} are accepted` };
  }
  const lineCounter = new LineCounter();
  const lineAt = (offset: number): number => Math.max(1, lineCounter.linePos(offset).line);
  const tokens = [...new Parser(lineCounter.addNewLine).parse(text)];
  const deep = tooDeepToken(tokens);
  if (deep !== null) {
    return { kind: "error", line: lineAt(deep.offset), message: `nested deeper than ${MAX_DEPTH} levels` };
  }
  const [document, second] = new Composer({
    version: "1.2",
    schema: "core",
    resolveKnownTags: false,
    stringKeys: true,
    // Done below: the parser's own check takes time in the square of the number of keys.
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: "error",
  }).compose(tokens, true, text.length);
  if (document === undefined) throw new Error("the YAML parser gave no document"); // it was told to make one (`true`)
  // A warning is a tag that nobody here knows: its value would not be what the author meant.
  const [first] = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0]);
  if (first !== undefined) return syntaxError(text, first.code, first.pos[0], document.contents, lineAt);
  if (second !== undefined) {
    return { kind: "error", line: lineAt(second.range[0]), message: yamlErrorText("MULTIPLE_DOCS") };
  }
  return new Plainer(lineAt).read(document.contents);
};

/**
 * The first token that stands too deep. The parser's tokens are walked without recursion: composing them recurses, and deep
 * in a stack that is nearly used up even a regular expression ends the process.
 */
const tooDeepToken = (tokens: readonly CST.Token[]): CST.Token | null => {
  const rest = tokens.map((token) => ({ token, depth: 0 }));
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    const { token, depth } = next;
    if (depth > MAX_DEPTH) return token;
    if ("value" in token && token.value) rest.push({ token: token.value, depth });
    if (!("items" in token)) continue;
    for (const { key, value } of token.items) {
      if (key) rest.push({ token: key, depth: depth + 1 });
      if (value) rest.push({ token: value, depth: depth + 1 });
    }
  }
  return null;
};

const syntaxError = (
  text: string,
  code: ErrorCode,
  offset: number,
  contents: Node | null,
  lineAt: (offset: number) => number,
): YamlReading => {
  const openQuote = code === "MISSING_CHAR" ? openQuoteBefore(contents, offset) : null;
  if (openQuote !== null) {
    return { kind: "error", line: lineAt(openQuote), message: "a quotation mark is not closed" };
  }
  const lineStart = text.lastIndexOf("\n", offset - 1) + 1;
  const tab = code === "BAD_INDENT" && /^ *\t/.test(text.slice(lineStart));
  return { kind: "error", line: lineAt(offset), message: yamlErrorText(tab ? "TAB_AS_INDENT" : code) };
};

/** Where the quoted scalar begins that runs up to `offset`: the parser reports only where it missed the end. */
const openQuoteBefore = (node: unknown, offset: number): number | null => {
  if (isMap(node)) {
    return openQuoteAmong(
      node.items.flatMap(({ key, value }) => [key, value]),
      offset,
    );
  }
  if (isSeq(node)) return openQuoteAmong(node.items, offset);
  if (!isScalar(node) || !node.range) return null;
  const quoted = node.type === "QUOTE_DOUBLE" || node.type === "QUOTE_SINGLE";
  return quoted && node.range[0] < offset && offset <= node.range[1] ? node.range[0] : null;
};

const openQuoteAmong = (nodes: unknown[], offset: number): number | null => {
  for (const node of nodes) {
    const found = openQuoteBefore(node, offset);
    if (found !== null) return found;
  }
  return null;
};

class YamlFault extends Error {
  readonly offset: number;

  constructor(offset: number, message: string) {
    super(message);
    this.offset = offset;
  }
}

const pathKey = (path: YamlPath): string => JSON.stringify(path);

/** Turns the parser's nodes into plain values, within bounds, and remembers where each stood. */
class Plainer {
  readonly #lineAt: (offset: number) => number;
  readonly #anchors = new Map<string, Node>();
  readonly #open = new Set<Node>();
  readonly #lines = new Map<string, number>();
  readonly #sources = new Map<string, string>();
  #nodes = 0;
  #aliases = 0;

  constructor(lineAt: (offset: number) => number) {
    this.#lineAt = lineAt;
  }

  read(contents: Node | null): YamlReading {
    try {
      const value = contents === null ? null : this.#plain(contents, []);
      return { kind: "ok", value, lineOf: (path) => this.#lineOf(path), sourceOf: (path) => this.#sourceOf(path) };
    } catch (error) {
      if (!(error instanceof YamlFault)) throw error;
      return { kind: "error", line: this.#lineAt(error.offset), message: error.message };
    }
  }

  #lineOf(path: YamlPath): number {
    for (let length = path.length; length > 0; length--) {
      const line = this.#lines.get(pathKey(path.slice(0, length)));
      if (line !== undefined) return line;
    }
    return 1;
  }

  #sourceOf(path: YamlPath): string | null {
    return this.#sources.get(pathKey(path)) ?? null;
  }

  #plain(node: Node, path: YamlPath): unknown {
    const offset = node.range?.[0] ?? 0;
    this.#nodes++;
    if (this.#nodes > MAX_NODES) throw new YamlFault(offset, `more than ${MAX_NODES} values, aliases counted in full`);
    if (path.length > MAX_DEPTH) throw new YamlFault(offset, `nested deeper than ${MAX_DEPTH} levels`);
    if (isAlias(node)) return this.#resolve(node.source, offset, path);
    if ((isScalar(node) || isMap(node) || isSeq(node)) && node.anchor) this.#anchors.set(node.anchor, node);
    if (isScalar(node)) {
      if (node.type === "PLAIN" && node.source !== undefined) this.#sources.set(pathKey(path), node.source);
      return node.value;
    }
    this.#open.add(node);
    const value = isMap(node) ? this.#mapping(node, path) : isSeq(node) ? this.#list(node, path) : null;
    this.#open.delete(node);
    return value;
  }

  #resolve(anchor: string, offset: number, path: YamlPath): unknown {
    this.#aliases++;
    if (this.#aliases > MAX_ALIASES) throw new YamlFault(offset, `more than ${MAX_ALIASES} aliases`);
    const target = this.#anchors.get(anchor);
    if (target === undefined) throw new YamlFault(offset, "an alias that names no anchor before it");
    if (this.#open.has(target)) throw new YamlFault(offset, "an alias inside of what it stands for");
    return this.#plain(target, path);
  }

  #mapping(node: { items: { key: unknown; value: unknown }[] }, path: YamlPath): Record<string, unknown> {
    const result: Record<string, unknown> = Object.create(null);
    for (const { key, value } of node.items) {
      // Text, by `stringKeys`; an alias as a key has no value of its own.
      if (!isScalar<string>(key) || typeof key.value !== "string") {
        throw new YamlFault((key as Node | null)?.range?.[0] ?? 0, yamlErrorText("NON_STRING_KEY"));
      }
      if (key.anchor) this.#anchors.set(key.anchor, key);
      const offset = key.range?.[0] ?? 0;
      const inner = [...path, key.value];
      if (key.value in result) {
        throw new YamlFault(offset, `duplicate key ${JSON.stringify(key.value)}, first on line ${this.#lineOf(inner)}`);
      }
      this.#lines.set(pathKey(inner), this.#lineAt(offset));
      result[key.value] = value === null ? null : this.#plain(value as Node, inner);
    }
    return result;
  }

  #list(node: { items: unknown[] }, path: YamlPath): unknown[] {
    return node.items.map((item, index) => {
      const inner = [...path, index];
      this.#lines.set(pathKey(inner), this.#lineAt((item as Node).range?.[0] ?? 0));
      return this.#plain(item as Node, inner);
    });
  }
}
