import { opendir } from "node:fs/promises";
import { join } from "node:path";
import { kindOf, readSmallFile } from "./careful_files.ts";

/** The refs of a git directory, read as text without git: nothing that its owner configured can have a say. */
export interface RefFiles {
  head: HeadFile;
  /** Full name → object name, as written; nothing says that the object exists. */
  refs: Map<string, string>;
  /** What only a reflog or another worktree's HEAD names: the older stashes, detached work. */
  further: Set<string>;
  /** What could not be read and why. */
  notes: string[];
}

export type HeadFile = { kind: "object"; sha: string; ref: string | null } | { kind: "unreadable"; reason: string };

const OBJECT_NAME = /^([0-9a-f]{40}|[0-9a-f]{64})$/;
const SYMBOLIC = /^ref: *(refs\/[^\n]+)$/;
const MAX_REF_BYTES = 4096;
const MAX_PACKED_BYTES = 64 * 1024 * 1024;
const MAX_REFLOG_BYTES = 1024 * 1024;
const MAX_REFS = 100_000;
const MAX_ENTRIES = 200_000;
const MAX_DEPTH = 32;
const MAX_HOPS = 5;
const MAX_WORKTREES = 100;

/** Reads the refs of `gitDir`, which must itself be a real directory. Links in it are not followed. */
export const readRefFiles = async (gitDir: string): Promise<RefFiles> => {
  const found: RefFiles = { head: { kind: "unreadable", reason: "" }, refs: new Map(), further: new Set(), notes: [] };
  await readPackedRefs(gitDir, found);
  const symbolic = new Map<string, string>();
  // A loose ref wins over a packed one of the same name.
  await readLooseRefs(gitDir, "refs", 0, found, symbolic, { left: MAX_ENTRIES });
  found.head = await readHead(join(gitDir, "HEAD"), found.refs, symbolic);
  await readStashes(gitDir, found);
  await readWorktrees(gitDir, found, symbolic);
  return found;
};

const readPackedRefs = async (gitDir: string, found: RefFiles): Promise<void> => {
  const file = await readSmallFile(join(gitDir, "packed-refs"), MAX_PACKED_BYTES);
  if (file.kind === "absent") return;
  if (file.kind === "unusable") {
    found.notes.push(`packed-refs was not read: it ${file.reason}`);
    return;
  }
  for (const line of file.bytes.toString("utf8").split("\n")) {
    const blank = line.indexOf(" ");
    const sha = line.slice(0, blank);
    const name = line.slice(blank + 1);
    if (!OBJECT_NAME.test(sha) || !name.startsWith("refs/")) continue;
    if (!addRef(found, name, sha)) return;
  }
};

const readLooseRefs = async (
  gitDir: string,
  folder: string,
  depth: number,
  found: RefFiles,
  symbolic: Map<string, string>,
  entries: { left: number },
): Promise<void> => {
  const path = join(gitDir, folder);
  if ((await kindOf(path)) !== "directory") {
    found.notes.push(`${folder} was not read: it is not a directory`);
    return;
  }
  for await (const entry of await opendir(path)) {
    if (entries.left === 0) {
      found.notes.push(`the rest of ${folder} was not read: more than ${MAX_ENTRIES} files and folders`);
      return;
    }
    entries.left -= 1;
    const name = `${folder}/${entry.name}`;
    if (entry.isDirectory()) {
      if (depth < MAX_DEPTH) await readLooseRefs(gitDir, name, depth + 1, found, symbolic, entries);
      else found.notes.push(`${name.slice(0, 200)}… was not read: too deep`);
      continue;
    }
    if (name.endsWith(".lock")) continue;
    const file = await readSmallFile(join(path, entry.name), MAX_REF_BYTES);
    const text = file.kind === "read" ? file.bytes.toString("utf8").trim() : "";
    const target = SYMBOLIC.exec(text)?.[1];
    if (target !== undefined) symbolic.set(name, target);
    else if (OBJECT_NAME.test(text)) {
      if (!addRef(found, name, text)) return;
    } else found.notes.push(`${name} was not read: it ${file.kind === "unusable" ? file.reason : "names no object"}`);
  }
};

const addRef = (found: RefFiles, name: string, sha: string): boolean => {
  if (found.refs.size >= MAX_REFS && !found.refs.has(name)) {
    found.notes.push(`more than ${MAX_REFS} refs: the others were not read`);
    return false;
  }
  found.refs.set(name, sha);
  return true;
};

const readHead = async (
  path: string,
  refs: ReadonlyMap<string, string>,
  symbolic: ReadonlyMap<string, string>,
): Promise<HeadFile> => {
  const file = await readSmallFile(path, MAX_REF_BYTES);
  if (file.kind !== "read") {
    return { kind: "unreadable", reason: file.kind === "absent" ? "HEAD is missing" : `HEAD ${file.reason}` };
  }
  const text = file.bytes.toString("utf8").trim();
  if (OBJECT_NAME.test(text)) return { kind: "object", sha: text, ref: null };
  let ref = SYMBOLIC.exec(text)?.[1];
  for (let hop = 0; ref !== undefined && hop < MAX_HOPS; hop++) {
    const sha = refs.get(ref);
    if (sha !== undefined) return { kind: "object", sha, ref };
    const next = symbolic.get(ref);
    if (next === undefined) return { kind: "unreadable", reason: `HEAD names ${ref}, which does not exist` };
    ref = next;
  }
  return { kind: "unreadable", reason: "HEAD names no commit and no ref" };
};

/** Only the newest stash has a ref; the others stand in its log, one line each: `<old> <new> <who> …`. */
const readStashes = async (gitDir: string, found: RefFiles): Promise<void> => {
  if (
    (await kindOf(join(gitDir, "logs"))) !== "directory" ||
    (await kindOf(join(gitDir, "logs/refs"))) !== "directory"
  ) {
    return;
  }
  const log = await readSmallFile(join(gitDir, "logs/refs/stash"), MAX_REFLOG_BYTES);
  if (log.kind === "unusable") found.notes.push(`the log of refs/stash was not read: it ${log.reason}`);
  if (log.kind !== "read") return;
  for (const line of log.bytes.toString("utf8").split("\n")) {
    const sha = line.split(" ", 2)[1] ?? "";
    if (OBJECT_NAME.test(sha)) found.further.add(sha);
  }
};

const readWorktrees = async (gitDir: string, found: RefFiles, symbolic: ReadonlyMap<string, string>): Promise<void> => {
  const folder = join(gitDir, "worktrees");
  if ((await kindOf(folder)) !== "directory") return;
  let seen = 0;
  for await (const entry of await opendir(folder)) {
    if (!entry.isDirectory()) continue;
    seen += 1;
    if (seen > MAX_WORKTREES) {
      found.notes.push(`more than ${MAX_WORKTREES} worktrees: the others were not read`);
      return;
    }
    const head = await readHead(join(folder, entry.name, "HEAD"), found.refs, symbolic);
    if (head.kind === "object") found.further.add(head.sha);
  }
};
