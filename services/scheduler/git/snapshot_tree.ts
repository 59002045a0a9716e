import { createReadStream } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Git, type GitOptions, type GitResult, gitFailure } from "@orchestrator/shared/git/run_git.ts";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { kindBelow } from "./careful_files.ts";
import { printable } from "./notes.ts";
import type { OwnGitDir } from "./own_git_dir.ts";
import { removeTraps } from "./remove_traps.ts";
import { runOnTheirs, type Unreadable } from "./run_on_theirs.ts";

export interface Snapshot {
  kind: "taken";
  /** The tree of what stands there: tracked and untracked files, without what is ignored. */
  tree: string;
  /** Folders of repositories inside it; they are not part of the tree. */
  nested: string[];
  notes: string[];
}

export interface SnapshotOptions {
  git: Git;
  own: OwnGitDir;
  /** The folder whose files are taken. */
  workTree: string;
  /** Kept from one time to the next it spares the hashing of what has not changed. */
  indexFile: string;
  /** What the folder was checked out from; null: nothing in it is tracked. */
  base: string | null;
  /** Path of a file that is taken even where it is ignored; null: none. */
  artifact: string | null;
  signal: AbortSignal | undefined;
}

/** Hashing all files of a large repository takes its time. */
const TIMEOUT_MS = 10 * 60_000;

/** For files that git cannot convert as their attributes say: taken as they are. */
const NO_CONVERSION = "* -text -eol -ident -filter -working-tree-encoding\n";

/**
 * Writes the files of a folder as a tree into the objects of `own`. Nothing there is run or followed: no filter, no link,
 * and no repository inside it, in which git would start processes. `unreadable`: the objects of `base` are broken.
 */
export const snapshotTree = async (o: SnapshotOptions): Promise<Snapshot | Unreadable> => {
  const { git, own, workTree, indexFile, signal } = o;
  const options: GitOptions = { gitDir: own.gitDir, workTree, indexFile, signal, timeoutMs: TIMEOUT_MS };
  const traps = await removeTraps(workTree);
  const based = await readBase(git, o.base, indexFile, options);
  if (based.kind === "unreadable") return based;
  // It is taken as it stands there or not at all: where it cannot be read that of `base` would stay, an old verdict as a rule.
  if (o.artifact !== null) {
    await git.ok(["update-index", "--force-remove", "-z", "--stdin"], { ...options, input: `${o.artifact}\0` });
  }

  const found = await findInside(git, own, o.artifact, options);
  const submodules = await stillThere(workTree, found.submodules);
  const notes = found.nested.map((path) => `${printable(path)} was left out: it is a repository of its own`);
  notes.push(...traps.map((path) => `${printable(path)} was removed: git would have waited for it for ever`));
  notes.push(...(await addFiles(git, own, [...found.nested, ...submodules], options)));
  if (o.artifact !== null && !found.hasArtifact) notes.push(...(await addArtifact(git, workTree, o.artifact, options)));
  const written = await runOnTheirs(git, ["write-tree"], options);
  if (written.kind === "unreadable") return written;
  return { kind: "taken", tree: written.stdout.trim(), nested: found.nested.map(String), notes };
};

const readBase = async (
  git: Git,
  base: string | null,
  indexFile: string,
  options: GitOptions,
): Promise<{ kind: "done" } | Unreadable> => {
  await removeTree(`${indexFile}.lock`);
  const args = ["read-tree", ...(base === null ? ["--empty"] : ["--reset", base])];
  const first = await runOnTheirs(git, args, options);
  if (first.kind === "done") return first;
  // The index of the last time may be what cannot be read.
  await removeTree(indexFile);
  return runOnTheirs(git, args, options);
};

interface Found {
  nested: Buffer[];
  submodules: Buffer[];
  /** The artifact is tracked, or untracked and not ignored. */
  hasArtifact: boolean;
}

/**
 * Looks for repositories inside the folder. They are left out of all that follows: for a submodule `git add` would run
 * `git status` in its directory, under its configuration.
 */
const findInside = async (git: Git, own: OwnGitDir, artifact: string | null, options: GitOptions): Promise<Found> => {
  const outputFile = join(own.scratch, "files");
  await git.ok(["ls-files", "-z", "-t", "--stage", "--others", "--exclude-standard"], { ...options, outputFile });
  const found: Found = { nested: [], submodules: [], hasArtifact: false };
  const wanted = artifact === null ? null : Buffer.from(artifact);
  for await (const record of records(outputFile)) {
    const untracked = record.subarray(0, 2).equals(UNTRACKED);
    const path = untracked ? record.subarray(2) : record.subarray(record.indexOf("\t") + 1);
    if (untracked && path.at(-1) === SLASH) found.nested.push(Buffer.from(path.subarray(0, -1)));
    else if (!untracked && record.subarray(2, 8).equals(GITLINK)) found.submodules.push(Buffer.from(path));
    else if (wanted !== null && path.equals(wanted)) found.hasArtifact = true;
  }
  await rm(outputFile);
  return found;
};

/** Submodules whose folder is there: only in such a one would git start a process. One that was removed is seen as removed. */
const stillThere = async (workTree: string, submodules: readonly Buffer[]): Promise<Buffer[]> => {
  const there: Buffer[] = [];
  for (const path of submodules) {
    const name = path.toString("utf8");
    const isText = Buffer.from(name).equals(path);
    if (!isText || (await kindBelow(workTree, name)).kind === "directory") there.push(path);
  }
  return there;
};

const UNTRACKED = Buffer.from("? ");
const GITLINK = Buffer.from("160000");
const SLASH = "/".charCodeAt(0);

/** The records of a file, each of which ends in NUL; read in pieces, since a list of files may be long. */
async function* records(path: string): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of createReadStream(path)) {
    const bytes = Buffer.concat([rest, chunk as Buffer]);
    let from = 0;
    for (let end = bytes.indexOf(0); end >= 0; end = bytes.indexOf(0, from)) {
      yield bytes.subarray(from, end);
      from = end + 1;
    }
    rest = bytes.subarray(from);
  }
}

/** `git add --all` of everything but `leftOut`; answers with what it could not take. */
const addFiles = async (
  git: Git,
  own: OwnGitDir,
  leftOut: readonly Buffer[],
  options: GitOptions,
): Promise<string[]> => {
  const args = [...INTO_ONE_PACK, "add", "--all", "--ignore-errors"];
  if (leftOut.length > 0) {
    args.push("--pathspec-from-file=-", "--pathspec-file-nul");
    const excluded = leftOut.map((path) => Buffer.concat([Buffer.from(":(top,exclude,literal)"), path]));
    options = { ...options, input: Buffer.concat([Buffer.from(":(top)"), ...excluded].flatMap((spec) => [spec, NUL])) };
  }
  const tryAdding = async (): Promise<GitResult> => {
    const result = await git.run(args, options);
    const failure = result.code === 0 ? null : gitFailure(args, options, result);
    const isSurroundings = failure instanceof ToolError && failure.code === "no_space";
    if (isSurroundings || result.code === null || result.timedOut) throw failure;
    return result;
  };
  const notes: string[] = [];
  let result = await tryAdding();
  if (result.code !== 0 && result.code !== SOME_NOT_ADDED) {
    notes.push(`files were taken as they are, since they could not be converted: ${printable(result.stderr)}`);
    await writeFile(join(own.gitDir, "info/attributes"), NO_CONVERSION);
    result = await tryAdding();
  }
  if (result.code === SOME_NOT_ADDED) notes.push(`some files were not taken: ${printable(result.stderr)}`);
  else if (result.code !== 0) throw gitFailure(args, options, result);
  return notes;
};

/** Above this size `git add` writes into one pack: for thousands of new files ten times as fast as a file for each. */
const INTO_ONE_PACK = ["-c", "core.bigFileThreshold=1"];
/** The exit code of `git add --ignore-errors` that has left files out. */
const SOME_NOT_ADDED = 1;
const NUL = Buffer.from("\0");

const addArtifact = async (git: Git, workspace: string, artifact: string, options: GitOptions): Promise<string[]> => {
  const { kind, detour } = await kindBelow(workspace, artifact);
  if (detour !== null) return [`${artifact} was not taken: ${detour} is not a directory`];
  if (kind !== "file" && kind !== "link") return [];
  const args = ["update-index", "--add", "--replace", "-z", "--stdin"];
  const added = await runOnTheirs(git, args, { ...options, input: `${artifact}\0` });
  return added.kind === "unreadable" ? [`${artifact} was not taken: ${printable(added.reason)}`] : [];
};
