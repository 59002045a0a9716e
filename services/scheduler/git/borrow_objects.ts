import { mkdir, readdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { kindOf } from "./careful_files.ts";

/**
 * Makes `into` an objects directory that shows a stranger's plain loose objects and packs, and nothing else of theirs: no
 * alternates that lead elsewhere, no commit graph, multi-pack index or bitmap that could lie, nothing reached by a link.
 * The links made here lead only to what was seen to be a real file or directory. Answers with what was left out.
 */
export const borrowObjects = async (objects: string, into: string): Promise<string[]> => {
  const notes: string[] = [];
  await mkdir(join(into, "pack"), { recursive: true });
  if ((await kindOf(objects)) !== "directory") {
    notes.push("objects was not read: it is not a directory");
    return notes;
  }
  for (const entry of await readdir(objects, { withFileTypes: true })) {
    const from = join(objects, entry.name);
    if (entry.isSymbolicLink()) notes.push(`objects/${entry.name} was not read: it is a link`);
    else if (entry.name === "pack" && entry.isDirectory()) await borrowPacks(from, join(into, "pack"), notes);
    else if (/^[0-9a-f]{2}$/.test(entry.name) && entry.isDirectory()) {
      await borrowLoose(from, join(into, entry.name), entry.name, notes);
    }
  }
  return notes;
};

const borrowPacks = async (from: string, into: string, notes: string[]): Promise<void> => {
  const files = new Set<string>();
  for (const entry of await readdir(from, { withFileTypes: true })) {
    if (entry.isFile()) files.add(entry.name);
    else if (entry.isSymbolicLink()) notes.push(`objects/pack/${entry.name} was not read: it is a link`);
  }
  for (const name of files) {
    const stem = /^(.+)\.pack$/.exec(name)?.[1];
    if (stem === undefined || !files.has(`${stem}.idx`)) continue;
    await symlink(join(from, name), join(into, name));
    await symlink(join(from, `${stem}.idx`), join(into, `${stem}.idx`));
  }
};

const borrowLoose = async (from: string, into: string, label: string, notes: string[]): Promise<void> => {
  const entries = await readdir(from, { withFileTypes: true });
  if (entries.every((entry) => entry.isFile())) {
    await symlink(from, into);
    return;
  }
  notes.push(`objects/${label} holds something else than files, which was not read`);
  await mkdir(into);
  for (const entry of entries) {
    if (entry.isFile()) await symlink(join(from, entry.name), join(into, entry.name));
  }
};
