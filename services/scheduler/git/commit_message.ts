/** The trailer by which a commit is known as a run's own. */
export const RUN_TRAILER = "Orchestrator-Run";

export interface MessageParts {
  /** One line; line breaks in it become blanks. */
  subject: string;
  body?: string;
  /** Written as `Key: value` in the last paragraph, in this order. */
  trailers?: Readonly<Record<string, string | number>>;
}

const TRAILER = /^[A-Za-z][A-Za-z0-9-]*: \S/;

const oneLine = (text: string): string => text.replace(/[\u0000-\u001f\u007f]+/g, " ").trim();

/** A commit message whose last paragraph git reads as trailers, whatever the other parts hold. */
export const commitMessage = ({ subject, body = "", trailers = {} }: MessageParts): string => {
  const lines = Object.entries(trailers).map(([key, value]) => `${key}: ${oneLine(String(value))}`);
  return `${[oneLine(subject), body.replaceAll("\0", "").trim(), lines.join("\n")].filter((part) => part !== "").join("\n\n")}\n`;
};

/** The same message with the run's trailer in its last paragraph, where it is not there yet. */
export const withRunTrailer = (message: string, runId: number): string => {
  const trailer = `${RUN_TRAILER}: ${runId}`;
  const text = message.replaceAll("\0", "").trim();
  const paragraphs = text.split(/\n[ \t]*\n/);
  const last = (paragraphs.length > 1 ? paragraphs.at(-1) : "")?.split("\n") ?? [];
  const isTrailers = last.length > 0 && last.every((line) => TRAILER.test(line));
  if (isTrailers && last.includes(trailer)) return `${text}\n`;
  return `${text}${isTrailers ? "\n" : "\n\n"}${trailer}\n`;
};
