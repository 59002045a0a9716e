import { join } from "node:path";
import { MIN_FREE_BYTES } from "@orchestrator/shared/disk_space.ts";
import { expect, test } from "vitest";
import { DiskSpaceWatch } from "../../../services/scheduler/disk_space_watch.ts";
import { FakeClock } from "../../helpers/fake_clock.ts";
import { mountSmallDisk } from "../../helpers/small_disk.ts";
import { tempFolder } from "../../helpers/temp_folder.ts";
import { keepLog } from "./kept_log.ts";

const MINUTE_MS = 60_000;

test("a disk that stays full is told of when it is found, once an hour, and when there is room again", async () => {
  const folder = await tempFolder();
  const full = join(folder, "full");
  const disk = await mountSmallDisk(full);
  const clock = new FakeClock();
  const { log, lines } = keepLog();
  const watch = new DiskSpaceWatch({ clock, log }, { kept: [folder, full], remade: [] });
  /** Looks every five seconds, as the dispatcher does. */
  const look = async (minutes: number) => {
    const seen = new Set<boolean>();
    for (let n = 0; n < minutes * 12; n++) {
      seen.add(await watch.hasSpace());
      clock.advance(5_000);
    }
    return [...seen];
  };
  const told = () =>
    lines.splice(0).map(({ level, folder, free_bytes, for_ms }) => ({ level, folder, free_bytes, for_ms }));

  expect(await look(1)).toEqual([true]);
  expect(told()).toEqual([]);
  await disk.leave(MIN_FREE_BYTES - 4096);
  expect(await look(150)).toEqual([false]);
  const warning = { level: "warn", folder: full, free_bytes: MIN_FREE_BYTES - 4096 };
  expect(told()).toEqual([
    { ...warning, for_ms: 0 },
    { ...warning, for_ms: 60 * MINUTE_MS },
    { ...warning, for_ms: 120 * MINUTE_MS },
  ]);
  await disk.free();
  expect(await look(150)).toEqual([true]);
  expect(told()).toMatchObject([{ level: "info", for_ms: 150 * MINUTE_MS }]);
  await disk.leave(MIN_FREE_BYTES - 4096);
  expect(await look(1)).toEqual([false]);
  expect(told()).toEqual([{ ...warning, for_ms: 0 }]);
});
