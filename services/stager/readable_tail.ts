import type { Tail } from "@orchestrator/shared/tail.ts";

/** CSI and OSC sequences, and the two-character escapes: colours, cursor movements, titles, links. */
const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])/g;
/** What has no business in a text file: control characters, and those that reorder what a reader sees. */
const UNPRINTABLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** Any text as a text file may hold it: no ANSI codes, no control characters but newline and tab, no lone surrogates. */
export const printable = (text: string): string =>
  text
    .replace(ANSI, "")
    .replace(/\r\n?|[\u2028\u2029\u0085]/g, "\n")
    .replace(UNPRINTABLE, "\ufffd")
    .toWellFormed();

/**
 * The end of an output as text of at most `maxBytes` bytes of UTF-8, beginning at the beginning of a line where one can be
 * found. `dropped`: whether anything stands before it.
 */
export const readableTail = (tail: Tail, maxBytes: number): { text: string; dropped: boolean } => {
  const bytes = tail.bytes();
  // Bytes that belong to a character whose beginning has been dropped.
  let start = 0;
  if (tail.total > bytes.byteLength) while (start < 3 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start++;
  const decoded = printable(new TextDecoder().decode(bytes.subarray(start))).replace(/\n+$/, "");
  const encoded = new TextEncoder().encode(decoded);
  if (tail.total <= bytes.byteLength && encoded.byteLength <= maxBytes) return { text: decoded, dropped: false };
  let cut = Math.max(0, encoded.byteLength - maxBytes);
  while (((encoded[cut] ?? 0) & 0xc0) === 0x80) cut++;
  const rest = new TextDecoder().decode(encoded.subarray(cut));
  const newline = rest.indexOf("\n");
  return { text: newline >= 0 && newline < rest.length - 1 ? rest.slice(newline + 1) : rest, dropped: true };
};
