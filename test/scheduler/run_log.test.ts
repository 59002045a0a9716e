import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BoundedFile, MIN_BYTES } from "../../services/scheduler/bounded_file.ts";
import { openRunLog } from "../../services/scheduler/run_log.ts";
import { tempFolder } from "../shared/process/real.ts";

const MARKER = /^\n--- (\d+) bytes of output dropped here -+\n/;

/** What a bounded file of `maxBytes` holds of `all`; fails where it is not a beginning, a right number and an end. */
const expectBeginningAndEnd = (file: Buffer, all: Buffer, maxBytes: number): void => {
  expect(file.length).toBeLessThanOrEqual(maxBytes);
  if (all.length <= maxBytes) {
    expect(file.equals(all)).toBe(true);
    return;
  }
  const headBytes = Math.floor(maxBytes / 4);
  expect(file.subarray(0, headBytes).equals(all.subarray(0, headBytes))).toBe(true);
  const rest = file.subarray(headBytes).toString("latin1");
  const match = MARKER.exec(rest);
  expect(match, "no line between beginning and end").not.toBeNull();
  const tail = rest.slice(match![0].length);
  expect(headBytes + Number(match![1]) + tail.length).toBe(all.length);
  expect(all.toString("latin1").endsWith(tail)).toBe(true);
  // The end is worth having: a quarter of the file at least.
  expect(tail.length).toBeGreaterThan((maxBytes - 80) / 4 - MIN_BYTES / 4);
};

describe("bounded file", () => {
  const bytes = fc.uint8Array({ minLength: 0, maxLength: 3000 });
  const lines = fc.array(fc.string({ maxLength: 40 }), { maxLength: 60 }).map((all) => Buffer.from(all.join("\n")));

  test("keeps beginning and end of any bytes, whatever the pieces, and reads from top to bottom at any time", async () => {
    const folder = tempFolder();
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: MIN_BYTES, max: 4000 }),
        fc.array(fc.oneof(bytes, lines), { maxLength: 12 }),
        async (maxBytes, pieces) => {
          const path = join(folder, "log");
          const file = await BoundedFile.open(path, maxBytes);
          let all = Buffer.alloc(0);
          for (const piece of pieces) {
            await file.write(piece);
            all = Buffer.concat([all, piece]);
            expectBeginningAndEnd(readFileSync(path), all, maxBytes);
          }
          await file.close();
        },
      ),
      { numRuns: 60 },
    );
  });

  test("the end begins with a line where lines are short", async () => {
    const path = join(tempFolder(), "log");
    const file = await BoundedFile.open(path, 1000);
    await file.write(Buffer.from(Array.from({ length: 500 }, (_, n) => `line ${n}\n`).join("")));
    await file.close();
    expect(readFileSync(path, "utf8")).toMatch(/dropped here -+\nline \d+\nline/);
  });

  test("a limit that leaves no room is refused", async () => {
    await expect(BoundedFile.open(join(tempFolder(), "log"), MIN_BYTES - 1)).rejects.toThrow(RangeError);
  });
});

describe("run log", () => {
  test("is made with its folder, for its owner only, and emptied", async () => {
    const path = join(tempFolder(), "a/b/7.log");
    const first = await openRunLog({ path, maxBytes: 4096 });
    first.append("old");
    await first.close();
    const log = await openRunLog({ path, maxBytes: 4096 });
    log.append("text, ");
    log.append(Buffer.from([0, 0xff, 0x0a]));
    await log.close();
    expect(readFileSync(path)).toEqual(Buffer.from([...Buffer.from("text, "), 0, 0xff, 0x0a]));
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test("can be read while it is written", async () => {
    const path = join(tempFolder(), "7.log");
    const log = await openRunLog({ path, maxBytes: 4096 });
    log.append("first\n");
    await log.drained();
    expect(readFileSync(path, "utf8")).toBe("first\n");
    log.append("second\n");
    await log.drained();
    expect(readFileSync(path, "utf8")).toBe("first\nsecond\n");
    await log.close();
  });

  test("100 MiB without a newline: the file is never larger than its limit, not for a moment", async () => {
    const path = join(tempFolder(), "7.log");
    const maxBytes = 4 * 1024 * 1024;
    const log = await openRunLog({ path, maxBytes });
    const chunk = Buffer.alloc(64 * 1024, "x");
    let largest = 0;
    for (let n = 0; n < 1600; n += 1) {
      if (!log.append(chunk)) {
        let behind = true;
        const drained = log.drained().then(() => {
          behind = false;
        });
        while (behind) {
          largest = Math.max(largest, statSync(path).size);
          await setImmediate();
        }
        await drained;
      }
    }
    log.append("the end\n");
    await log.close();
    expect(largest).toBeGreaterThan(maxBytes / 2);
    expect(largest).toBeLessThanOrEqual(maxBytes);
    const file = readFileSync(path);
    expectBeginningAndEnd(file, Buffer.concat([...Array(1600).fill(chunk), Buffer.from("the end\n")]), maxBytes);
  });

  test("says when the disk is behind, and when it has caught up", async () => {
    const log = await openRunLog({ path: join(tempFolder(), "7.log"), maxBytes: 8 * 1024 * 1024 });
    const chunk = Buffer.alloc(256 * 1024, "x");
    const answers = Array.from({ length: 10 }, () => log.append(chunk));
    expect(answers[0]).toBe(true);
    expect(answers.at(-1)).toBe(false);
    await log.drained();
    expect(log.append(chunk)).toBe(true);
    await log.close();
  });

  test("what is appended before the close is written, what comes after is not", async () => {
    const path = join(tempFolder(), "7.log");
    const log = await openRunLog({ path, maxBytes: 4096 });
    log.append("before");
    const closing = log.close();
    expect(log.append("after")).toBe(true);
    await closing;
    await log.close();
    expect(readFileSync(path, "utf8")).toBe("before");
  });

  test("a full disk is a no_space that shows at the close, not in whoever appends", async () => {
    const path = join(tempFolder(), "7.log");
    symlinkSync("/dev/full", path);
    const log = await openRunLog({ path, maxBytes: 4096 });
    log.append("lost");
    await log.drained();
    // Nobody has to wait for a disk that takes nothing.
    expect(log.append(Buffer.alloc(4 * 1024 * 1024))).toBe(true);
    const failure = { name: "ToolError", code: "no_space", message: expect.stringContaining(path) };
    await expect(log.close()).rejects.toMatchObject(failure);
    await expect(log.close()).rejects.toMatchObject(failure);
  });

  test("a log that cannot be made is said so, with its path", async () => {
    const folder = tempFolder();
    writeFileSync(join(folder, "file"), "");
    const inFile = join(folder, "file/7.log");
    await expect(openRunLog({ path: inFile, maxBytes: 4096 })).rejects.toMatchObject({
      name: "ToolError",
      code: "run_log",
    });
    mkdirSync(join(folder, "7.log"));
    await expect(openRunLog({ path: join(folder, "7.log"), maxBytes: 4096 })).rejects.toThrow(join(folder, "7.log"));
  });
});
