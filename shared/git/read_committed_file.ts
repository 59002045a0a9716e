import type { CommittedFile } from "../artifact.ts";
import { ToolError } from "../tool_error.ts";
import type { Git } from "./run_git.ts";

export interface ReadOptions {
  /** A larger file is not read: `too_large`. */
  maxBytes: number;
  signal?: AbortSignal | undefined;
}

/**
 * Reads one file of a commit by its full path. No link is followed, neither the file itself nor a directory on the way:
 * what stands behind a link is `missing`. Throws a `ToolError` where the repository cannot be read.
 */
export const readCommittedFile = async (
  git: Git,
  gitDir: string,
  commit: string,
  path: string,
  { maxBytes, signal }: ReadOptions,
): Promise<CommittedFile> => {
  const options = { gitDir, signal, env: { GIT_LITERAL_PATHSPECS: "1" } };
  const listing = await git.ok(["ls-tree", "-z", "-l", "--full-tree", commit, "--", path], options);
  // One line: `<mode> <type> <object> <size>\t<path>`. A path that names a directory's inside lists other entries.
  const line = listing.split("\0").find((entry) => entry.slice(entry.indexOf("\t") + 1) === path);
  if (line === undefined) return { kind: "missing" };
  const [mode = "", , object = "", size = ""] = line.slice(0, line.indexOf("\t")).split(/ +/);
  if (mode !== "100644" && mode !== "100755") return { kind: "not_regular", mode };
  if (Number(size) > maxBytes) return { kind: "too_large", bytes: Number(size) };
  const content = await git.bytes(["cat-file", "blob", object], { gitDir, signal, maxOutputBytes: maxBytes });
  if (content.length !== Number(size)) {
    throw new ToolError("git", `${path} of ${commit}: read ${content.length} bytes of ${size}`);
  }
  return { kind: "file", content };
};
