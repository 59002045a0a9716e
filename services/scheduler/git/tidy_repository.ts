import { join } from "node:path";
import type { Git } from "@orchestrator/shared/git/run_git.ts";
import { namesIn } from "@orchestrator/shared/names_in.ts";

export type Tidied = { kind: "not_needed" } | { kind: "tidied"; packs: number; looseObjects: number };

/** More packs than this make every look-up slower, and every workspace has as many files to copy. */
const MAX_PACKS = 24;
/** An estimate from one of the 256 directories, as git itself makes it. */
const MAX_LOOSE_OBJECTS = 2048;
const TIMEOUT_MS = 10 * 60_000;

/**
 * Packs loose objects and small packs together where many have piled up. Geometric repacking rewrites what is small and
 * leaves the large packs alone, so that it stays quick in a large repository; and it keeps objects that no ref names.
 */
export const tidyRepository = async (git: Git, gitDir: string, signal: AbortSignal | undefined): Promise<Tidied> => {
  const packs = (await namesIn(join(gitDir, "objects/pack"))).filter((name) => name.endsWith(".pack")).length;
  const looseObjects = (await namesIn(join(gitDir, "objects/17"))).length * 256;
  if (packs <= MAX_PACKS && looseObjects <= MAX_LOOSE_OBJECTS) return { kind: "not_needed" };
  const options = { gitDir, signal, timeoutMs: TIMEOUT_MS };
  await git.ok(["repack", "--quiet", "-d", "--geometric=2"], options);
  await git.ok(["pack-refs", "--all"], options);
  return { kind: "tidied", packs, looseObjects };
};
