const MAX_CHARS = 500;
const MAX_NOTES = 50;

/** Text that an agent may have had a hand in as one line of bounded length, without control characters. */
export const printable = (said: { toString(encoding: "utf8"): string } | string): string => {
  const text = said
    .toString("utf8")
    .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ")
    .trim();
  return text.length <= MAX_CHARS ? text : `${text.slice(0, MAX_CHARS)}…`;
};

/** Notes as they may be shown and stored: each printable, and not more than a person would read. */
export const boundedNotes = (notes: readonly string[]): string[] => {
  const shown = notes.slice(0, MAX_NOTES).map(printable);
  return notes.length <= MAX_NOTES ? shown : [...shown, `… and ${notes.length - MAX_NOTES} more`];
};
