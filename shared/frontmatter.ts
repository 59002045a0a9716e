/** Above this an artifact is not read. */
export const MAX_ARTIFACT_BYTES = 1024 * 1024;

/** What was written for one key: for messages, and for comparing text that YAML would read as a number. */
export interface FrontmatterField {
  /** Counted from 1 in the file. */
  line: number;
  /** The scalar as it stands in the file where it is unquoted; null for a list or a mapping. */
  source: string | null;
}

export type FrontmatterResult =
  | { kind: "ok"; data: Record<string, unknown>; body: string; fields: ReadonlyMap<string, FrontmatterField> }
  | { kind: "error"; line: number; message: string };

export function readFrontmatter(_bytes: Uint8Array): FrontmatterResult {
  throw new Error("not yet");
}

export function writeFrontmatter(_data: Readonly<Record<string, string | number>>, _body: string): string {
  throw new Error("not yet");
}
