import { symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { DiskSpace } from "@orchestrator/shared/disk_space.ts";
import { describe, expect, test } from "vitest";
import { describeFullDisk, FULL_BYTES, FULL_INODES, judgeOnDisks, spaceOf } from "../../services/stager/full_disk.ts";
import { mountSmallDisk, type SmallDisk } from "../helpers/small_disk.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { makeStager, type StagingRun, type TestStagerOptions } from "./harness.ts";

const MIB = 1024 * 1024;
const steps = (...lines: string[]): string => `version: 1\nsteps:\n${lines.map((line) => `  - ${line}\n`).join("")}`;

describe("describeFullDisk", () => {
  const roomy: DiskSpace = { freeBytes: 900 * MIB, totalBytes: 1000 * MIB, freeInodes: 5000 };

  test.each<[string, Partial<DiskSpace>, string | null]>([
    ["a disk with room", {}, null],
    ["a disk with just enough", { freeBytes: FULL_BYTES, freeInodes: FULL_INODES }, null],
    ["a full disk", { freeBytes: 0 }, "the disk of /b is full (0 KiB free): make room there"],
    [
      "one that is nearly full",
      { freeBytes: FULL_BYTES - 1 },
      "the disk of /b is full (16383 KiB free): make room there",
    ],
    ["no more files", { freeInodes: 0 }, "the disk of /b takes hardly any more files (0): remove some there"],
    ["few more", { freeInodes: FULL_INODES - 1 }, "the disk of /b takes hardly any more files (99): remove some there"],
    ["a disk that does not count its files", { freeInodes: null }, null],
    [
      "a full one that does not",
      { freeBytes: 0, freeInodes: null },
      "the disk of /b is full (0 KiB free): make room there",
    ],
    ["what is no disk", { freeBytes: 0, totalBytes: 0, freeInodes: null }, null],
  ])("%s", (_, change, expected) => {
    const spaces = [
      { folder: "/a", space: roomy },
      { folder: "/b", space: { ...roomy, ...change } },
    ];
    expect(describeFullDisk(spaces)).toBe(expected);
    const failure = { verdict: "failed", reason: "exited with 1" } as const;
    expect(judgeOnDisks(failure, spaces)).toEqual(
      expected === null
        ? failure
        : { verdict: "tool_error", class: "no_space", reason: `exited with 1, and ${expected}` },
    );
  });
});

/** A run whose folder, and what else lies in `inScratch` (default: all of the scratch directory), has a disk of its own. */
const runOnSmallDisk = async (
  options: TestStagerOptions,
  prepare: (disk: SmallDisk) => Promise<void>,
  inScratch = "",
): Promise<StagingRun & { folder: string }> => {
  const scratchDir = join(await tempFolder(), "scratch");
  const folder = join(scratchDir, inScratch);
  const disk = await mountSmallDisk(folder);
  const stager = await makeStager({ ...options, scratchDir });
  await prepare(disk);
  return { folder, ...(await stager.run()) };
};
const leaveSome = (disk: SmallDisk): Promise<void> => disk.leave(2 * FULL_BYTES);

describe("a step on a disk that it fills", () => {
  test("its failure is not the work's", async () => {
    const plan = steps("{ name: build, run: cat /dev/zero >big }");
    const { result, steps: told, output, folder } = await runOnSmallDisk({ plan }, leaveSome);
    expect(output).toContain("No space left on device");
    expect(told).toEqual(["build started", "build tool_error"]);
    expect(result).toMatchObject({ verdict: "tool_error", class: "no_space", action: "defer", artifact: null });
    const found = /^step build: exited with 1, and the disk of (.*) is full \(\d+ KiB free\): make room there$/;
    expect(result.reason).toMatch(found);
    expect(found.exec(result.reason)?.[1]).toMatch(new RegExp(`^${folder}/stager-[0-9a-f]+/runs/9$`));
  });

  test("nor is it where the time runs out over it", async () => {
    const plan = steps("{ name: build, run: cat /dev/zero >big; sleep 60, timeout_s: 2 }");
    const { result } = await runOnSmallDisk({ plan }, leaveSome);
    expect(result).toMatchObject({ verdict: "tool_error", class: "no_space" });
    expect(result.reason).toMatch(/^step build: did not end within its 2 s, and the disk of /);
  });

  test("the same for files instead of bytes", async () => {
    const plan = steps("{ name: build, run: n=0; while mkdir $n; do n=$((n + 1)); done; exit 1 }");
    const { result } = await runOnSmallDisk({ plan }, (disk) => disk.refuseFiles(3 * FULL_INODES));
    expect(result).toMatchObject({ verdict: "tool_error", class: "no_space" });
    expect(result.reason).toMatch(/ takes hardly any more files \(\d\): remove some there$/);
  });

  test("the same for the disk of the cache", async () => {
    const plan = steps('{ name: build, run: cat /dev/zero >"$ORCH_CACHE_DIR/big" }');
    const { result, folder } = await runOnSmallDisk({ plan }, leaveSome, "cache");
    expect(result.reason).toContain(`and the disk of ${folder}/shop is full`);
  });

  test("the same for the disk of the temporary files, whoever has named it", async () => {
    const temp = await tempFolder();
    const disk = await mountSmallDisk(temp);
    await leaveSome(disk);
    const plan = `env: { TMPDIR: "${temp}" }\n${steps('{ name: build, run: cat /dev/zero >"$TMPDIR/big" }')}`;
    const { result } = await (await makeStager({ plan })).run();
    expect(result.class).toBe("no_space");
    expect(result.reason).toContain(`and the disk of ${temp} is full`);
  });

  test("what has passed all the same has passed", async () => {
    const plan = steps("{ name: build, run: cat /dev/zero >big || echo full }");
    const { result, output } = await runOnSmallDisk({ plan }, leaveSome);
    expect(output).toContain("full\n");
    expect(result.verdict).toBe("success");
  });
});

test("on a disk that is full already nothing is checked out", async () => {
  const plan = steps("{ name: build, run: ['false'] }");
  const { result, steps: told } = await runOnSmallDisk({ plan }, (disk) => disk.leave(FULL_BYTES / 2));
  expect(told).toEqual([]);
  expect(result).toMatchObject({ verdict: "tool_error", class: "no_space", action: "defer" });
  expect(result.reason).toMatch(/^the disk of .*\/runs\/9 is full \(\d{4} KiB free\): make room there$/);
});

test("a TMPDIR that is not there, one that is no folder, and one that is no disk say nothing about a step", async () => {
  const folder = await tempFolder();
  await writeFile(join(folder, "file"), "");
  await symlink("loop", join(folder, "loop"));
  const none = ["none", "file/below", "loop", "x".repeat(300)].map((name) => join(folder, name));
  for (const temp of [...none, "/proc"]) {
    const plan = `env: { TMPDIR: "${temp}" }\n${steps("{ name: build, run: ['false'] }")}`;
    expect((await (await makeStager({ plan })).run()).result.reason, temp).toBe("step build: exited with 1");
  }
});

test("what is no word on a folder that is missing is thrown: the disk has not been seen", async () => {
  await expect(spaceOf(["no\0path"])).rejects.toThrow();
});
