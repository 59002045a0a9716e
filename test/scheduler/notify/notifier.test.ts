import { setMaxListeners } from "node:events";
import { systemClock } from "@orchestrator/shared/clock.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import { type Notification, notificationSchema } from "@orchestrator/shared/schemas/notification.ts";
import type { TaskEvent } from "@orchestrator/shared/schemas/rows.ts";
import * as v from "valibot";
import { describe, expect, onTestFinished, test } from "vitest";
import { toNotification, wordOf } from "../../../services/scheduler/notification.ts";
import { type Deliver, EventNotifier, type NotifierOptions } from "../../../services/scheduler/notifier.ts";
import { FakeClock } from "../../helpers/fake_clock.ts";
import { insertTaskWithJob } from "../../helpers/insert.ts";
import { openTestStorage } from "../../helpers/storage.ts";

const ALL = ["waiting", "blocked", "done", "paused"];

/** Deliveries that end when the test says so. */
class HeldDeliveries {
  readonly begun: Notification[] = [];
  running = 0;
  mostAtOnce = 0;
  #release: (() => void)[] = [];
  #begun: (() => void)[] = [];

  readonly deliver: Deliver = async (notification, signal) => {
    setMaxListeners(100, signal);
    this.begun.push(notification);
    this.running += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.running);
    for (const wake of this.#begun.splice(0)) wake();
    try {
      await new Promise<void>((resolve) => {
        this.#release.push(resolve);
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      signal.throwIfAborted();
    } finally {
      this.running -= 1;
    }
    return { kind: "delivered", tries: 1 };
  };

  async whenBegun(count: number): Promise<void> {
    while (this.begun.length < count) await new Promise<void>((resolve) => this.#begun.push(resolve));
  }

  releaseAll(): void {
    for (const release of this.#release.splice(0)) release();
  }
}

const make = async (deliver: Deliver, over: Partial<NotifierOptions> = {}) => {
  const { storage } = await openTestStorage();
  const lines: Record<string, unknown>[] = [];
  const log = createLog({
    level: "debug",
    service: "scheduler",
    secrets: [],
    destination: { write: (line) => void lines.push(JSON.parse(line)) },
  });
  const notifier = new EventNotifier({ on: ALL, deliver, secrets: [], storage, clock: systemClock, log, ...over });
  notifier.start();
  onTestFinished(() => notifier.stop(0));
  const { task, job } = await insertTaskWithJob(storage, { workItemId: "ORCH-1", description: "a description" });
  const event = (kind: TaskEvent["kind"], detail: TaskEvent["detail"] = {}, taskId: number | null = task.id) =>
    storage.write((tx) => tx.event(kind, { taskId, ...(taskId === null ? {} : { jobId: job.id }) }, detail));
  return { storage, notifier, lines, task, job, event };
};

const collecting = (): { deliver: Deliver; told: Notification[]; whenTold(count: number): Promise<void> } => {
  const told: Notification[] = [];
  let waiting: (() => void)[] = [];
  return {
    told,
    deliver: async (notification) => {
      told.push(notification);
      for (const wake of waiting.splice(0)) wake();
      return { kind: "delivered", tries: 1 };
    },
    whenTold: async (count) => {
      while (told.length < count) await new Promise<void>((resolve) => waiting.push(resolve));
      waiting = [];
    },
  };
};

describe("what is told", () => {
  test("the row of the event and which task it is about, and neither title nor description", async () => {
    const { deliver, told, whenTold } = collecting();
    const { task, job, event } = await make(deliver);
    await event("blocked", { stage: "review", class: "gate_failed", reason: "the gate cannot be read" });
    await whenTold(1);
    expect(told).toEqual([
      {
        on: "blocked",
        id: expect.any(Number),
        task_id: task.id,
        job_id: job.id,
        run_id: null,
        at: expect.any(String),
        kind: "blocked",
        detail: { stage: "review", class: "gate_failed", reason: "the gate cannot be read" },
        work_item_id: "ORCH-1",
        repo: "shop",
        branch: "work/ORCH-1",
        stage: "review",
        status: "blocked",
        reason: "the gate cannot be read",
      },
    ]);
    expect(v.is(v.strictObject(notificationSchema.entries), told[0])).toBe(true);
    expect(JSON.stringify(told)).not.toMatch(/Title of|a description/);
  });

  test("what befalls the queue is about no task", async () => {
    const { deliver, told, whenTold } = collecting();
    const { event } = await make(deliver);
    await event("paused", { what: "agent:developer", reason: "systemic fault: no_space", by: "scheduler" }, null);
    await whenTold(1);
    expect(told[0]).toMatchObject({
      ...{ on: "paused", kind: "paused", task_id: null, work_item_id: null, repo: null, branch: null },
      ...{ stage: null, status: null, reason: "systemic fault: no_space" },
      detail: { what: "agent:developer" },
    });
  });

  test("known secrets are taken out, wherever they stand", async () => {
    const { deliver, told, whenTold } = collecting();
    const { event } = await make(deliver, { secrets: ["the-token-of-the-api"] });
    await event("blocked", { reason: "git said the-token-of-the-api", more: ["https://u:pass@host/x"] });
    await whenTold(1);
    expect(JSON.stringify(told)).not.toMatch(/the-token|pass@/);
    expect(told[0]!.reason).toBe("git said [redacted]");
  });

  test("only the words that were chosen", async () => {
    const { deliver, told, whenTold } = collecting();
    const { event } = await make(deliver, { on: ["done"] });
    for (const kind of ["waiting", "blocked", "paused", "resumed", "cancelled", "advanced", "done"] as const) {
      await event(kind, {}, kind === "paused" ? null : undefined);
    }
    await whenTold(1);
    expect(told.map(({ kind }) => kind)).toEqual(["done"]);
  });

  test("a stager that stays away comes by `paused`, once", async () => {
    const clock = new FakeClock();
    const { deliver, told, whenTold } = collecting();
    const { event } = await make(deliver, { clock, on: ["paused"] });
    for (let minute = 0; minute <= 30; minute++) {
      await event("requeued", {
        by: "stager_unreachable",
        stage: "deploy-staging",
        reason: "no answer from the stager",
      });
      clock.advance(60_000);
    }
    await event("paused", { what: "all" }, null);
    await whenTold(2);
    expect(
      told.map(({ on, kind, reason, stage, status, work_item_id }) => [on, kind, reason, stage, status, work_item_id]),
    ).toEqual([
      [
        ...["paused", "requeued", "no stager could be reached for 10 minutes: no answer from the stager"],
        ...["deploy-staging", "active", "ORCH-1"],
      ],
      ["paused", "paused", null, null, null, null],
    ]);
  });
});

describe("it is never in the way", () => {
  test("commits go on while nothing is delivered, at most four are under way, and the oldest give way", async () => {
    const held = new HeldDeliveries();
    const { event, notifier, lines } = await make(held.deliver, { maxWaiting: 10 });
    for (let n = 1; n <= 4; n++) await event("blocked", { n });
    await held.whenBegun(4);
    for (let n = 5; n <= 17; n++) await event("blocked", { n });
    expect(held.running).toBe(4);
    const dropped = lines.filter((line) => String(line["msg"]).startsWith("dropped the oldest notification"));
    expect(dropped.map((line) => line["dropped_so_far"])).toEqual([1, 2, 3]);
    const rest = (async () => {
      for (const count of [8, 12, 14]) {
        held.releaseAll();
        await held.whenBegun(count);
      }
      held.releaseAll();
    })();
    await rest;
    await notifier.stop(5_000);
    expect(held.begun.map(({ detail }) => detail["n"])).toEqual([1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]);
    expect(held.mostAtOnce).toBe(4);
    expect(lines.at(-1)).toMatchObject({ msg: "notifications", delivered: 14, failed: 0, dropped: 3 });
  });

  test("nothing is delivered within the commit, and a delivery that breaks is a line in the log", async () => {
    let committing = false;
    let within = false;
    const { event, notifier, lines } = await make(() => {
      within ||= committing;
      throw new RangeError("out of range");
    });
    committing = true;
    const written = event("blocked").then(() => {
      committing = false;
    });
    await written;
    await event("done");
    await notifier.stop(5_000);
    expect(within).toBe(false);
    expect(lines.filter(({ msg }) => msg === "a notification could not be made")).toHaveLength(2);
    expect(lines.at(-1)).toMatchObject({ delivered: 0, failed: 2, dropped: 0 });
  });

  test("one that could not be delivered is said once, with its reason", async () => {
    const { event, notifier, lines } = await make(async () => ({ kind: "failed", tries: 8, reason: "answered 503" }));
    await event("blocked");
    await notifier.stop(5_000);
    expect(lines.filter(({ level }) => level === "error")).toEqual([
      expect.objectContaining({
        msg: "a notification could not be delivered",
        on: "blocked",
        tries: 8,
        reason: "answered 503",
      }),
    ]);
  });
});

describe("a stop", () => {
  test("waits for what is under way and what waits", async () => {
    const { deliver, told } = collecting();
    const { event, notifier } = await make(deliver, { concurrency: 1 });
    for (let n = 1; n <= 20; n++) await event("blocked", { n });
    await notifier.stop(60_000);
    expect(told).toHaveLength(20);
  });

  test("waits only so long, ends what is still under way, and says how many were not delivered", async () => {
    const held = new HeldDeliveries();
    const { event, notifier, lines } = await make(held.deliver, { concurrency: 2 });
    for (let n = 1; n <= 5; n++) await event("blocked", { n });
    await held.whenBegun(2);
    await notifier.stop(20);
    expect(held.running).toBe(0);
    expect(held.begun).toHaveLength(2);
    expect(lines.find(({ msg }) => msg === "stopped before every notification was delivered")).toMatchObject({
      undelivered: 5,
    });
    await event("blocked");
    await notifier.stop(0);
    expect(held.begun).toHaveLength(2);
  });
});

describe("stage and status are those of the event's moment", () => {
  const task = { workItemId: "A-1", repo: "r", branch: "b", stage: "testing", status: "active" } as never;
  const event = (kind: TaskEvent["kind"], detail: TaskEvent["detail"]): TaskEvent => ({
    ...{ id: 1, taskId: 2, jobId: null, runId: null, at: "2030-01-02T03:04:05.000Z", kind, detail },
  });
  test.each<[TaskEvent["kind"], TaskEvent["detail"], string, string]>([
    ["blocked", { stage: "review" }, "review", "blocked"],
    ["waiting", { stage: "deploy" }, "deploy", "waiting"],
    ["done", { head: "abc" }, "done", "done"],
    ["requeued", { stage: "deploy-staging" }, "deploy-staging", "active"],
    ["blocked", {}, "testing", "blocked"],
  ])("%s %j", (kind, detail, stage, status) => {
    const on = wordOf({ kind }) ?? "paused";
    expect(toNotification({ on, event: event(kind, detail), reason: null }, task)).toMatchObject({ on, stage, status });
  });
});
