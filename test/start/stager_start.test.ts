import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { busyPort } from "../helpers/busy_port.ts";
import { makePlace, type Place, type Start, startIn, whyFailed } from "./starting.ts";

const UNUSABLE = 73;

const cases: [name: string, spoil: (place: Place) => Promise<Start>, says: (place: Place) => string | RegExp][] = [
  [
    "a scratch directory that is a file",
    async ({ folder }) => {
      await writeFile(join(folder, "file"), "");
      return { env: { ORCH_SCRATCH_DIR: join(folder, "file") } };
    },
    ({ folder }) =>
      `ORCH_SCRATCH_DIR: ${folder}/file is not a directory: move away what stands there, or name another path`,
  ],
  [
    "a scratch directory that may not be written",
    async ({ folder }) => {
      await mkdir(join(folder, "locked"), { mode: 0o555 });
      return { env: { ORCH_SCRATCH_DIR: join(folder, "locked", "scratch") }, heedPermissions: true };
    },
    ({ folder }) =>
      `ORCH_SCRATCH_DIR: ${folder}/locked/scratch cannot be written by user ${process.getuid!()} (EACCES): give it to that user, or name another path`,
  ],
  [
    "no git",
    async ({ folder }) => ({ env: { PATH: folder } }),
    () => /^git cannot be run \(.*\): install git 2\.32 or newer$/,
  ],
  [
    "an address that this machine does not have",
    async () => ({ env: { ORCH_STAGER_HOST: "192.0.2.1", ORCH_STAGER_TOKEN: "a-token-for-tests" } }),
    () => "192.0.2.1:0: no such address on this machine",
  ],
];

describe("a start ends with one line about", () => {
  test.each(cases)("%s", async (_, spoil, says) => {
    const place = await makePlace();
    const why = whyFailed(await startIn("stager", place, await spoil(place)), UNUSABLE);
    const expected = says(place);
    if (typeof expected === "string") expect(why).toBe(expected);
    else expect(why).toMatch(expected);
  });
});

test("a port that is taken ends the start before anything is made", async () => {
  const place = await makePlace();
  const port = await busyPort();
  const ending = await startIn("stager", place, { env: { ORCH_STAGER_PORT: String(port) } });
  expect(whyFailed(ending, UNUSABLE)).toBe(`127.0.0.1:${port} is in use by another process: choose another port`);
  expect(await readdir(place.data)).toEqual([]);
});
