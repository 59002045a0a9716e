import { readYaml } from "./read_yaml.ts";

/** Above this an artifact is not read. */
export const MAX_ARTIFACT_BYTES = 1024 * 1024;

/** Where and how a key of the frontmatter was written. */
export interface FrontmatterField {
  /** Counted from 1 in the file. */
  line: number;
  /** An unquoted scalar as it stands in the file, where YAML may have read a number or a boolean; else null. */
  source: string | null;
}

export type FrontmatterResult =
  | {
      kind: "ok";
      /** An object without a prototype: what is not in the file is not there. */
      data: Record<string, unknown>;
      /** Everything after the line that closes the frontmatter, as it stands in the file. */
      body: string;
      /** For each key of `data`. */
      fields: ReadonlyMap<string, FrontmatterField>;
    }
  /** `message` is whole and begins with the line. */
  | { kind: "error"; line: number; message: string };

const FENCE = /^---[ \t]*\r?$/;

/**
 * Reads the YAML frontmatter at the beginning of a Markdown file. Accepted: a BOM, CRLF, blanks at the end of lines (of the
 * `---` too), quotes, comments. Values are read by YAML 1.2, so that `NO` and dates are text and `true` and `1` are not. The
 * body is never looked into.
 */
export const readFrontmatter = (bytes: Uint8Array): FrontmatterResult => {
  if (bytes.byteLength > MAX_ARTIFACT_BYTES) {
    const line = countLines(bytes.subarray(0, MAX_ARTIFACT_BYTES));
    return error(line, `the file has ${bytes.byteLength} bytes, at most ${MAX_ARTIFACT_BYTES} are accepted`);
  }
  const text = decode(bytes);
  if (text === null) return error(firstBadLine(bytes), "the file must be UTF-8 text, these bytes are not");
  const { lines, body } = splitAtFences(text);
  if (lines.length === 0) return error(1, "expected a line of '---' that opens the frontmatter");
  if (body === null) return error(1, "the frontmatter that opens here has no closing line of '---'");

  // The opening line goes along: it keeps the lines counted right, and nothing after it can be a YAML directive.
  const reading = readYaml(`${lines.join("\n")}\n`);
  if (reading.kind === "error") return error(reading.line, reading.message);
  if (!isMapping(reading.value)) {
    return error(2, `expected a mapping (lines of 'key: value'), found ${describeValue(reading.value)}`);
  }
  const fields = Object.keys(reading.value).map(
    (key) => [key, { line: reading.lineOf([key]), source: reading.sourceOf([key]) }] as const,
  );
  return { kind: "ok", data: reading.value, body, fields: new Map(fields) };
};

const error = (line: number, message: string): FrontmatterResult => ({
  kind: "error",
  line,
  message: `line ${line}: ${message}`,
});

/** The file's text without its BOM; null where it is not UTF-8. */
const decode = (bytes: Uint8Array): string | null => {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (thrown) {
    if (thrown instanceof TypeError) return null;
    throw thrown;
  }
};

const NEWLINE = 0x0a;

const countLines = (bytes: Uint8Array): number => bytes.reduce((lines, byte) => lines + (byte === NEWLINE ? 1 : 0), 1);

/** No character of UTF-8 but the newline holds its byte, so each line can be tried by itself. */
const firstBadLine = (bytes: Uint8Array): number => {
  let line = 1;
  let start = 0;
  for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, start)) {
    if (decode(bytes.subarray(start, end)) === null) return line;
    line++;
    start = end + 1;
  }
  return line;
};

/** The lines from the opening `---` up to the closing one, and what comes after that (null where there is none). */
const splitAtFences = (text: string): { lines: string[]; body: string | null } => {
  const lines: string[] = [];
  let start = 0;
  while (start <= text.length) {
    const newline = text.indexOf("\n", start);
    const end = newline === -1 ? text.length : newline;
    const line = text.slice(start, end);
    const fence = FENCE.test(line);
    if (lines.length === 0 && !fence) break;
    start = end + 1;
    if (lines.length > 0 && fence) return { lines, body: text.slice(start) };
    lines.push(fence ? "---" : line.replace(/\r$/, ""));
  }
  return { lines, body: null };
};

const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** What kind of value it is, in words, for a message. */
export const describeValue = (value: unknown): string => {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  switch (typeof value) {
    case "boolean":
      return `the boolean ${value}`;
    case "number":
      return `the number ${value}`;
    case "string":
      return `the text ${quote(value)}`;
    default:
      return "a mapping";
  }
};

const MAX_QUOTED = 80;

/** The value in quotes on one line, cut where it is long. */
export const quote = (value: string): string =>
  JSON.stringify(value.length <= MAX_QUOTED ? value : `${value.slice(0, MAX_QUOTED)}…`);

const KEY = /^[A-Za-z_][A-Za-z0-9_-]*$/;
/** Text that needs no quotes: it begins like a word, or is a date. */
const PLAIN = /^(?:[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*|\d{4}-\d{2}-\d{2})$/;
/** Words to which YAML gives another meaning than text. */
const YAML_WORD = /^(?:null|true|false)$/i;

/**
 * The text of a Markdown file with this frontmatter, which `readFrontmatter` reads back with the same values. Keys are names;
 * the file must be kept within `MAX_ARTIFACT_BYTES`, of which the frontmatter may take 64 KiB (a `RangeError` otherwise).
 */
export const writeFrontmatter = (data: Readonly<Record<string, string | number>>, body: string): string => {
  const lines = Object.entries(data).map(([key, value]) => {
    if (!KEY.test(key)) throw new RangeError(`frontmatter key ${quote(key)}: expected a name such as work_item`);
    return `${key}: ${writeValue(key, value)}\n`;
  });
  const text = `---\n${lines.join("")}---\n${body}`;
  const reading = readFrontmatter(new TextEncoder().encode(text));
  if (reading.kind === "error") throw new RangeError(`the frontmatter cannot be written: ${reading.message}`);
  return text;
};

const writeValue = (key: string, value: string | number): string => {
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value)) throw new RangeError(`frontmatter key ${key}: ${value} is not a whole number`);
    return String(value);
  }
  if (PLAIN.test(value) && !YAML_WORD.test(value)) return value;
  // JSON is YAML; what could be taken for a line break or a BOM on the way is escaped too.
  return JSON.stringify(value).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, escapeCharacter);
};

const escapeCharacter = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
