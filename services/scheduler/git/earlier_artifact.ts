import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { MAX_ARTIFACT_BYTES, readFrontmatter } from "@orchestrator/shared/frontmatter.ts";
import { readCommittedFile } from "@orchestrator/shared/git/read_committed_file.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import { kindBelow } from "./careful_files.ts";

/** Without frontmatter, so that it is no verdict. */
const STAND_IN = "This document was of an earlier round and has been taken out: it is to be written anew.\n";

const blobName = (content: string | Uint8Array): string =>
  createHash("sha1")
    .update(`blob ${Buffer.byteLength(content)}\0`)
    .update(content)
    .digest("hex");

/** The object that a workspace has in place of an earlier round's artifact; made by the orchestrator, nobody's work. */
export const STAND_IN_BLOB = blobName(STAND_IN);

/**
 * Takes the artifact of an earlier round out of a workspace's files and makes its folder, without leaving the workspace through a
 * link. HEAD and the index have it still (with an index that differs from HEAD git would not merge), from where a checkout, a
 * reset or a stash would bring an old verdict back: in this clone another object stands in for it (`refs/replace/`), which says
 * that it is to be written anew. Git writes that wherever it would write the old one; the services' own commands do not look at
 * such refs.
 * @returns what kept it from being taken out, for people.
 */
export const takeOutArtifact = async (
  git: Git,
  workspace: string,
  { start, artifact }: { start: string; artifact: string },
  signal: AbortSignal | undefined,
): Promise<string[]> => {
  const { detour } = await kindBelow(workspace, artifact);
  if (detour !== null) {
    return [`${detour} is not a directory in this branch: no artifact can stand at ${artifact} until it is`];
  }
  const gitDir = join(workspace, ".git");
  const old = await readCommittedFile(git, gitDir, start, artifact, { maxBytes: MAX_ARTIFACT_BYTES, signal });
  // What is no artifact is no verdict, and may be what other files are as well: an empty one, say.
  if (old.kind === "file" && readFrontmatter(old.content).kind === "ok") {
    await replaceBlob(git, gitDir, blobName(old.content), signal);
  }
  await removeTree(join(workspace, artifact));
  await mkdir(join(workspace, artifact, ".."), { recursive: true });
  return [];
};

const replaceBlob = async (git: Git, gitDir: string, old: string, signal: AbortSignal | undefined): Promise<void> => {
  await git.ok(["hash-object", "-w", "--stdin"], { gitDir, input: STAND_IN, signal });
  await mkdir(join(gitDir, "refs/replace"), { recursive: true });
  await writeFile(join(gitDir, "refs/replace", old), `${STAND_IN_BLOB}\n`);
};
