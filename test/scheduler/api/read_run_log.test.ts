import { writeFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { ChangeSignal } from "@orchestrator/shared/change_signal.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MIN_BYTES } from "../../../services/scheduler/bounded_file.ts";
import { readFinishedLog, readGrowingLog } from "../../../services/scheduler/read_run_log.ts";
import { type GrowingLog, openRunLog } from "../../../services/scheduler/run_log.ts";
import { tempFolder } from "../../helpers/temp_folder.ts";

const MARKER = /\n--- (\d+) bytes of output dropped here -+\n/;
const never = new AbortController().signal;

const lines = (from: number, count: number): string =>
  Array.from({ length: count }, (_, n) => `line ${from + n}\n`).join("");

const textOf = async (chunks: AsyncIterable<Uint8Array>, pause: () => Promise<unknown> = async () => {}) => {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) {
    all.push(chunk);
    await pause();
  }
  return Buffer.concat(all).toString();
};

/** What was read must be what was written, but for what a line says was dropped. */
const expectTold = (read: string, written: string): void => {
  const [first, ...rest] = read.split(MARKER);
  let at = first!.length;
  expect(written.startsWith(first!)).toBe(true);
  for (let n = 0; n < rest.length; n += 2) {
    at += Number(rest[n]);
    const part = rest[n + 1]!;
    expect(written.slice(at, at + part.length)).toBe(part);
    at += part.length;
  }
  expect(at).toBe(written.length);
};

const follow = (log: GrowingLog, tail?: number) => readGrowingLog(log, { tail, follow: true, signal: never });
const snapshot = (log: GrowingLog, tail?: number) => readGrowingLog(log, { tail, follow: false, signal: never });

test("followers of any speed read what was written, or are told how much they have missed", async () => {
  const folder = await tempFolder();
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: MIN_BYTES, max: 6000 }),
      fc.array(fc.tuple(fc.integer({ min: 1, max: 150 }), fc.integer({ min: 0, max: 3 })), { maxLength: 30 }),
      fc.integer({ min: 0, max: 5 }),
      async (maxBytes, pieces, slowness) => {
        const log = await openRunLog({ path: join(folder, "log"), maxBytes });
        const rest = async (turns: number) => {
          for (let n = 0; n < turns; n++) await setImmediate();
        };
        const readers = [
          textOf(follow(log)),
          textOf(follow(log), () => rest(slowness)),
          textOf(follow(log), () => log.drained()),
        ];
        let written = "";
        for (const [count, pause] of pieces) {
          const piece = lines(written.length, count);
          log.append(piece);
          written += piece;
          await rest(pause);
        }
        await log.close();
        for (const read of await Promise.all(readers)) expectTold(read, written);
        // Who begins now reads what the file holds.
        expect(await textOf(follow(log))).toBe(await readFile(log.path, "utf8"));
      },
    ),
    { numRuns: 40 },
  );
});

describe("a growing log", () => {
  test("is read up to where it stands, without waiting", async () => {
    const log = await openRunLog({ path: join(await tempFolder(), "log"), maxBytes: 10_000 });
    expect(await textOf(snapshot(log))).toBe("");
    log.append("one\ntwo\n");
    await log.drained();
    expect(await textOf(snapshot(log))).toBe("one\ntwo\n");
    await log.close();
  });

  test.each([
    [0, ""],
    [4, "two\n"],
    [8, "one\ntwo\n"],
    [9, "one\ntwo\n"],
  ])("its last %i bytes", async (tail, text) => {
    const log = await openRunLog({ path: join(await tempFolder(), "log"), maxBytes: 10_000 });
    log.append("one\ntwo\n");
    await log.drained();
    expect(await textOf(snapshot(log, tail))).toBe(text);
    const followed = textOf(follow(log, tail));
    while (log.changed.waiting === 0) await setImmediate();
    log.append("three\n");
    await log.close();
    expect(await followed).toBe(`${text}three\n`);
  });

  test("its last bytes are the same as of the file, also where the middle was dropped", async () => {
    const log = await openRunLog({ path: join(await tempFolder(), "log"), maxBytes: 2000 });
    log.append(lines(0, 1000));
    await log.drained();
    const file = await readFile(log.path, "utf8");
    const tailAt = MARKER.exec(file)!.index + MARKER.exec(file)![0].length;
    for (const tail of [1, 100, file.length - tailAt, file.length, 5000]) {
      expect(await textOf(snapshot(log, tail))).toBe(file.slice(Math.max(0, file.length - tail)));
    }
    // What would begin within the line between begins after it.
    expect(await textOf(snapshot(log, file.length - tailAt + 10))).toBe(file.slice(tailAt));
    await log.close();
  });

  test("is read again where its end was moved during the read", async () => {
    const path = join(await tempFolder(), "log");
    await writeFile(path, "this was being moved");
    const layout = { moves: 0, moving: false, size: 20, dropped: 0, headBytes: 5, tailAt: 85 };
    let looks = 0;
    const log = {
      ...{ path, closed: true, changed: new ChangeSignal() },
      get layout() {
        looks += 1;
        // The third look is the one after the first read.
        if (looks === 3) writeFileSync(path, "this is in its place");
        return { ...layout, moves: looks < 3 ? 0 : 1 };
      },
    };
    expect(await textOf(follow(log as unknown as GrowingLog))).toBe("this is in its place");
  });

  test("ends when its reader goes, and leaves nobody waiting", async () => {
    const log = await openRunLog({ path: join(await tempFolder(), "log"), maxBytes: 2000 });
    const gone = new AbortController();
    log.append("one\n");
    await log.drained();
    const read = textOf(readGrowingLog(log, { tail: undefined, follow: true, signal: gone.signal }));
    while (log.changed.waiting === 0) await setImmediate();
    gone.abort();
    expect(await read).toBe("one\n");
    expect(log.changed.waiting).toBe(0);
    await log.close();
  });
});

test.each([
  [undefined, 300_000],
  [0, 0],
  [1, 1],
  [100_000, 100_000],
  [300_000, 300_000],
  [999_999_999_999_999, 300_000],
])("of a finished log the last %j bytes are %i", async (tail, length) => {
  const log = await openRunLog({ path: join(await tempFolder(), "log"), maxBytes: 1_000_000 });
  const all = Buffer.alloc(300_000, "abcdefghij\u0000\n");
  log.append(all);
  await log.close();
  const chunks: Uint8Array[] = [];
  for await (const chunk of readFinishedLog(log.path, { tail, signal: never })) chunks.push(chunk);
  expect(Buffer.concat(chunks).equals(all.subarray(all.length - length))).toBe(true);
  expect(Math.max(0, ...chunks.map((chunk) => chunk.length))).toBeLessThanOrEqual(64 * 1024);
});
