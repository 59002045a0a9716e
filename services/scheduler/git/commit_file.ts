import { IDENTITY } from "@orchestrator/shared/git/git_environment.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { withRunTrailer } from "./commit_message.ts";
import { DURABLE, type Mirror } from "./mirror.ts";
import { runRef } from "./refs.ts";

export interface CommitFileOptions {
  git: Git;
  mirror: Mirror;
  /** The new commit's only parent. */
  parent: string;
  /** Path in the repository. */
  path: string;
  content: string | Uint8Array;
  /** The trailer `Orchestrator-Run` is added where it lacks it. */
  message: string;
  runId: number;
  /** Throws where this scheduler has been superseded; called right before the ref moves. */
  fence: () => Promise<void>;
  signal?: AbortSignal | undefined;
}

/**
 * Makes a commit that differs from its only parent by one regular file, and keeps it under `runRef(runId)`; answers with
 * its name. No branch moves and no working directory is involved. Called inside `mirror.exclusive`.
 */
export const commitFile = async (o: CommitFileOptions): Promise<string> => {
  const { git, mirror, parent, path, runId, signal } = o;
  if (!isPath(path)) throw new Error(`not a path in a repository: ${JSON.stringify(path)}`);
  const message = Buffer.from(withRunTrailer(o.message, runId));
  const content = Buffer.from(o.content);
  // One process that writes file, trees, commit and ref, and touches the trees on the way only.
  const input = Buffer.concat([
    Buffer.from(`commit ${runRef(runId)}\nmark :1\ncommitter ${IDENTITY.name} <${IDENTITY.email}> now\n`),
    Buffer.from(`data ${message.length}\n`),
    message,
    Buffer.from(`\nfrom ${parent}\nM 100644 inline ${path}\ndata ${content.length}\n`),
    content,
    Buffer.from("\nget-mark :1\ndone\n"),
  ]);
  const args = [...DURABLE, "fast-import", "--quiet", "--force", "--done", "--date-format=now"];
  await o.fence();
  return (await git.ok(args, { gitDir: mirror.gitDir, signal, input })).trim();
};

const isPath = (path: string): boolean =>
  !/[\0\n"]/.test(path) && path.split("/").every((part) => !["", ".", "..", ".git"].includes(part.toLowerCase()));
