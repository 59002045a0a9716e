import { SCHEMA_VERSION } from "@orchestrator/shared/storage/migrate.ts";
import { describe, expect, test } from "vitest";
import type { Readiness } from "../../services/doctor/ask_readiness.ts";
import { judgeVersion } from "../../services/doctor/check_database.ts";
import { judgeDisk } from "../../services/doctor/check_disk.ts";
import { judgePlan } from "../../services/doctor/check_repos.ts";
import { judgeScheduler, type SchedulerView } from "../../services/doctor/check_scheduler.ts";
import { oneLine } from "../../services/doctor/finding.ts";
import { shown } from "./context.ts";

const holder = { host: "build7", pid: 71, since: "2030-01-02T03:04:05.000Z" };
const HOLDER = "pid 71 on build7, since 2030-01-02T03:04:05.000Z";
const ADDRESS = "127.0.0.1:8080";

describe("lock and port of the scheduler", () => {
  const held = { kind: "held", holder } as const;
  test.each<[SchedulerView["lock"], Readiness | null, string]>([
    [{ kind: "free" }, { kind: "nobody", reason: "refused" }, `ok scheduler none runs; ${ADDRESS} is free`],
    [{ kind: "free" }, null, "ok scheduler none runs; its port is chosen at the start"],
    ...(["ready", "other", "not_ready"] as const).map(
      (kind) =>
        [
          { kind: "free" },
          { kind, reasons: [], reason: "x" } as Readiness,
          `fail scheduler no scheduler works on this database, but somebody listens on ${ADDRESS} -> ` +
            "end what listens there, or choose another ORCH_PORT",
        ] satisfies [SchedulerView["lock"], Readiness, string],
    ),
    [held, null, `ok scheduler runs (${HOLDER})`],
    [held, { kind: "ready" }, `ok scheduler runs (${HOLDER}) and is ready on ${ADDRESS}`],
    [
      held,
      { kind: "not_ready", reasons: ["the lease has lapsed", "no dispatcher"] },
      `warn scheduler runs (${HOLDER}) and is not ready: the lease has lapsed; no dispatcher -> see its log`,
    ],
    [
      held,
      { kind: "nobody", reason: "refused" },
      `warn scheduler runs (${HOLDER}), but does not answer on ${ADDRESS} (refused) -> ` +
        "is it in a container, on another machine, or set to another address?",
    ],
    [
      held,
      { kind: "other", reason: "GET /readyz is answered 404" },
      `warn scheduler runs (${HOLDER}), but what listens on ${ADDRESS} is no scheduler (GET /readyz is answered 404) -> ` +
        "is it set to another address?",
    ],
    [{ kind: "held", holder: null }, null, "ok scheduler runs (it has not named itself yet)"],
    [
      { kind: "lapsed", holder },
      null,
      `warn scheduler the lease of ${HOLDER} has lapsed -> ` +
        "if that scheduler is gone, start one; if not, see in its log why it cannot renew",
    ],
  ])("%j and %j", (lock, listening, line) => {
    expect(shown([judgeScheduler({ lock, listening, address: ADDRESS })])).toEqual([line]);
  });
});

describe("disk space", () => {
  const GIB = 1024 ** 3;
  test.each<[number, number | null, string]>([
    [100 * GIB, 1e6, "ok disk 100 of 200 GiB free (/data)"],
    [100 * GIB, null, "ok disk 100 of 200 GiB free (/data)"],
    [2 * GIB, 1e6, "ok disk 2.00 of 200 GiB free (/data)"],
    [2 * GIB - 1, 1e6, "warn disk 2.00 of 200 GiB free (/data) -> make room soon: clones and builds need it"],
    [GIB / 4, 1e6, "warn disk 0.25 of 200 GiB free (/data) -> make room soon: clones and builds need it"],
    [GIB / 4 - 1, 1e6, "fail disk 0.25 of 200 GiB free (/data) -> make room: below 0.25 GiB no job is claimed"],
    [0, 0, "fail disk 0.00 of 200 GiB free (/data) -> make room: below 0.25 GiB no job is claimed"],
    [100 * GIB, 0, "fail disk no more files can be made (/data) -> remove some: its inodes are used up"],
    [
      100 * GIB,
      9_999,
      "warn disk only 9999 more files can be made (/data) -> remove some, before its inodes are used up",
    ],
  ])("%i bytes and %j files", (freeBytes, freeInodes, line) => {
    const folders = ["/data", "/data/repos", "/data/scratch"];
    expect(shown([judgeDisk({ folders, freeBytes, totalBytes: 200 * GIB, freeInodes })])).toEqual([line]);
  });

  test("a temporary directory with a disk of its own needs no room for clones", () => {
    const disk = { folders: ["/tmp"], totalBytes: GIB / 2, freeInodes: null, onlyTemporary: true };
    expect(judgeDisk({ ...disk, freeBytes: GIB / 8 }).level).toBe("ok");
    expect(judgeDisk({ ...disk, freeBytes: GIB / 32 }).level).toBe("warn");
  });

  test("a folder beside one that begins with the same letters is shown too", () => {
    const disk = { folders: ["/data", "/data2"], freeBytes: 9 * GIB, totalBytes: 9 * GIB, freeInodes: null };
    expect(judgeDisk(disk).found).toBe("9.00 of 9.00 GiB free (/data, /data2)");
  });
});

test.each([
  [SCHEMA_VERSION, `ok database schema version ${SCHEMA_VERSION} (/d.db)`],
  [0, `ok database schema version 0 (/d.db): the scheduler brings it to ${SCHEMA_VERSION} at its next start`],
  [
    SCHEMA_VERSION + 1,
    `fail database schema version ${SCHEMA_VERSION + 1} (/d.db), and this program knows versions up to ${SCHEMA_VERSION} -> ` +
      "run the program that made it, or a newer one",
  ],
])("schema version %i", (version, line) => {
  expect(shown([judgeVersion(version, "/d.db")])).toEqual([line]);
});

describe("the plan on the base branch", () => {
  const file = (text: string) => ({ kind: "file", content: Buffer.from(text) }) as const;
  const PLAN = ".orchestrator/staging.yaml on main";
  test.each([
    [
      "branch",
      file("version: 1\nsteps:\n  - { name: a, run: 'true' }\n  - { name: b, run: 'true' }\n"),
      `ok plan shop ${PLAN}: steps 2, teardown 0`,
    ],
    [
      "branch",
      { kind: "missing" },
      `warn plan shop there is no ${PLAN} -> commit one, or every branch must bring its own`,
    ],
    [
      "base",
      { kind: "missing" },
      `fail plan shop there is no ${PLAN} -> commit one: every staging run of this repository takes its plan from there`,
    ],
    [
      "branch",
      { kind: "not_regular", mode: "120000" },
      `fail plan shop ${PLAN} cannot be used: expected a regular file, found git mode 120000 -> correct it: with it staging ends FAILED`,
    ],
    [
      "branch",
      file("version: 1\na: 1\nb: 1\nc: 1\nd: 1\nsteps:\n  - { name: a, run: 'true' }\n"),
      `fail plan shop ${PLAN} cannot be used: line 2: a: unknown key -> correct it: with it staging ends FAILED`,
    ],
    [
      "branch",
      file("version: 1\nsteps:\n  - { run: 'true' }\n  - { run: 'true' }\n  - { run: 'true' }\n  - { run: 'true' }\n"),
      `fail plan shop ${PLAN} cannot be used: line 3: steps[0].name: missing; line 4: steps[1].name: missing; ` +
        "line 5: steps[2].name: missing; and 1 more -> correct it: with it staging ends FAILED",
    ],
  ] as const)("taken from the %s: %j", (plan, content, line) => {
    expect(shown([judgePlan("shop", { baseBranch: "main", plan }, content)])).toEqual([line]);
  });
});

test.each([
  ["one\n  two\r\n\nthree\n", "one two three"],
  ["\u001b[31mred\u001b[0m\u0007 \u009b", "[31mred[0m"],
  ["x".repeat(1001), `${"x".repeat(1000)}…`],
])("what others say becomes one plain line", (text, line) => {
  expect(oneLine(text)).toBe(line);
});
