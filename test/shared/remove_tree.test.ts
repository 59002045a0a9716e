import { execFile } from "node:child_process";
import { lstat, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { isThere } from "@orchestrator/shared/is_there.ts";
import { removeTree } from "@orchestrator/shared/remove_tree.ts";
import { expect, onTestFinished, test, vi } from "vitest";
import { tempFolder } from "../helpers/temp_folder.ts";

const faults = vi.hoisted(() => ({ beforeRemoving: null as (() => Promise<void>) | null }));
vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof import("node:fs/promises")>();
  const rm: typeof real.rm = async (...call) => {
    await faults.beforeRemoving?.();
    await real.rm(...call);
  };
  return { ...real, rm };
});

const SOMEBODY = 65534;
const isRoot = process.geteuid!() === 0;

/** A folder in which a user to whom permissions mean something has let a shell make a tree of the name `tree`. */
const treeOf = async (script: string): Promise<string> => {
  const folder = await tempFolder();
  const as = isRoot ? { uid: SOMEBODY, gid: SOMEBODY } : {};
  if (isRoot) await promisify(execFile)("chown", [`${SOMEBODY}:${SOMEBODY}`, folder]);
  await promisify(execFile)("sh", ["-ec", script], { cwd: folder, ...as });
  return join(folder, "tree");
};

/** For root, nothing is forbidden: the test goes on as the user who has made the tree. */
const becomeSomebody = (): void => {
  if (!isRoot) return;
  process.seteuid!(SOMEBODY);
  onTestFinished(() => process.seteuid!(0));
};

/** 200 folders, each in the one before it, whose path is longer than the kernel takes. */
const deep = (inEach: string): string =>
  `mkdir tree; cd tree; n=0; while [ $n -lt 200 ]; do mkdir dddddddddddddddddddddddddddddd; cd -P dddddddddddddddddddddddddddddd; ${inEach}; n=$((n + 1)); done; echo x >f`;

test.each<[string, string]>([
  ["a file", "echo x >tree"],
  ["a link that leads nowhere", "ln -s /nowhere tree"],
  ["a folder with all that is in it", "mkdir -p tree/a/b; echo x >tree/a/b/c; mkfifo tree/a/pipe; ln -s .. tree/a/up"],
  ["a folder that nobody may write to", "mkdir -p tree/a/b; echo x >tree/a/b/c; chmod 500 tree/a/b tree/a tree"],
  ["a folder that nobody may look into", "mkdir -p tree/a/b; echo x >tree/a/b/c; chmod 0 tree/a/b tree/a tree"],
  ["what lies deeper than a path can name", deep("echo x >f")],
  [
    "what lies deeper than a path can name, in folders that nobody may write to",
    `${deep("echo x >f")}; n=0; while [ $n -lt 200 ]; do chmod 500 .; cd -P ..; n=$((n + 1)); done; chmod 500 .`,
  ],
  [
    "folders whose names are no text",
    `mkdir -p "tree/$(printf 'bad\\377name')/a"; mkdir tree/b; chmod 500 tree/b tree`,
  ],
])("removes %s", async (_, script) => {
  const tree = await treeOf(script);
  expect(await isThere(tree)).toBe(true);
  becomeSomebody();
  await removeTree(tree);
  expect(await isThere(tree)).toBe(false);
});

test("has nothing to do where nothing is", async () => {
  await removeTree(join(await tempFolder(), "none"));
});

test("follows no link, and gives nobody permissions there", async () => {
  const tree = await treeOf("mkdir -p tree/a outside/b; echo precious >outside/f; chmod 500 outside");
  const outside = join(tree, "..", "outside");
  await symlink(outside, join(tree, "a", "link"));
  await promisify(execFile)("chmod", ["500", join(tree, "a"), tree]);
  becomeSomebody();
  await removeTree(tree);
  expect(await isThere(tree)).toBe(false);
  expect((await lstat(outside)).mode & 0o777).toBe(0o500);
  expect((await readdir(outside)).sort()).toEqual(["b", "f"]);
  expect(await readFile(join(outside, "f"), "utf8")).toBe("precious\n");
});

test("tries again where somebody has written there meanwhile, and gives up where that does not end", async () => {
  const tree = join(await tempFolder(), "tree");
  onTestFinished(() => {
    faults.beforeRemoving = null;
  });
  await mkdir(tree);
  let refused = 0;
  const refuse = async () => {
    refused += 1;
    throw Object.assign(new Error("ENOTEMPTY: directory not empty"), { code: "ENOTEMPTY" });
  };
  faults.beforeRemoving = async () => {
    if (refused === 0) await refuse();
  };
  await removeTree(tree);
  expect(await isThere(tree)).toBe(false);

  await mkdir(tree);
  faults.beforeRemoving = refuse;
  await expect(removeTree(tree)).rejects.toThrow("ENOTEMPTY");
});

test("says what stays: another user's files", async () => {
  const tree = await treeOf("mkdir -p tree/a");
  await mkdir(join(tree, "a", "roots"), { mode: 0o755 });
  await writeFile(join(tree, "a", "roots", "f"), "");
  becomeSomebody();
  // Whoever is not root cannot give a file away, but there are some that are nobody's to remove.
  await expect(removeTree(isRoot ? tree : "/proc/version")).rejects.toThrow(/EACCES|EPERM/);
});
