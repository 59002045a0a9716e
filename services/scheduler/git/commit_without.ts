import { IDENTITY } from "@orchestrator/shared/git/git_environment.ts";
import type { Git } from "@orchestrator/shared/git/run_git.ts";

/**
 * The commit that a workspace stands at whose stage has left its artifact in `start` by an earlier round: `start` without it.
 * Taking it out of the files alone would not do: `git checkout .`, a stash or a `git reset --hard` would bring an old verdict
 * back. The same start and path make the same commit, so that whoever meets it as HEAD can tell that nothing was committed.
 * @param ref set to it, in the repository at `gitDir`.
 * @returns null where `start` does not hold the artifact; nothing is done then.
 */
export const commitWithout = async (
  git: Git,
  gitDir: string,
  { start, artifact, ref }: { start: string; artifact: string; ref: string },
  signal: AbortSignal | undefined,
): Promise<string | null> => {
  const env = { GIT_LITERAL_PATHSPECS: "1" };
  const listing = await git.ok(["ls-tree", "-z", "--full-tree", start, "--", artifact], { gitDir, signal, env });
  if (listing === "") return null;
  const seconds = (await git.ok(["log", "-1", "--format=%ct", start], { gitDir, signal })).trim();
  const message = Buffer.from(`Take out ${artifact} of an earlier round\n`);
  // One process that touches the trees on the way only.
  const input = Buffer.concat([
    Buffer.from(`commit ${ref}\nmark :1\ncommitter ${IDENTITY.name} <${IDENTITY.email}> ${seconds} +0000\n`),
    Buffer.from(`data ${message.length}\n`),
    message,
    Buffer.from(`\nfrom ${start}\nD ${quoted(artifact)}\n\nget-mark :1\ndone\n`),
  ]);
  // A pack, which git brings to the disk and makes even of what it finds in borrowed objects: a loose copy in a workspace may
  // be empty after a power cut, or an agent's doing, and would pass for the commit.
  const args = ["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--force", "--done"];
  return (await git.ok(args, { gitDir, signal, input })).trim();
};

/** A path as fast-import reads it, whatever it holds. */
const quoted = (path: string): string =>
  `"${path.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;
