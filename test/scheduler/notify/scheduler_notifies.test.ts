import { createHmac } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DEFAULT_PIPELINE } from "@orchestrator/shared/pipeline.ts";
import { type Notification, notificationSchema } from "@orchestrator/shared/schemas/notification.ts";
import * as v from "valibot";
import { expect, test } from "vitest";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { startReceiver } from "./receiver.ts";

const ON = ["waiting", "blocked", "done", "paused"];

const withApproval = {
  ...DEFAULT_PIPELINE,
  stages: DEFAULT_PIPELINE.stages.map((stage) => ({ ...stage, approval: stage.name === "deploy" })),
};

test("a work item on its way, and a pause; the receiver fails at first and is slow then", async () => {
  const receiver = await startReceiver((response, n) => {
    if (n === 1) response.writeHead(503).end();
    else setTimeout(() => response.end(), 50);
  });
  const secret = "the-secret-of-the-receiver";
  const site = await makeSite({
    pipeline: withApproval,
    drainMs: 10_000,
    notify: { target: { kind: "url", url: receiver.url, secret }, on: ON },
  });
  const scheduler = await startTestScheduler(site);
  await postTask(scheduler, { workItemId: "ORCH-1", title: "a title", description: "a description" });
  await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status === "waiting");
  await scheduler.api.approveTask({ workItemId: "ORCH-1" }, { stage: "deploy" });
  await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status === "done");
  await scheduler.api.pauseQueue({ agent: "tester", reason: "a holiday" });
  await scheduler.stop();

  const accepted = receiver.received.slice(1).map(({ body }) => JSON.parse(body) as Notification);
  for (const each of accepted) expect(v.is(v.strictObject(notificationSchema.entries), each)).toBe(true);
  // The first was asked again a second later; the order is not promised.
  expect(
    accepted.map(({ on, work_item_id, stage, status, reason }) => [on, work_item_id, stage, status, reason]).sort(),
  ).toEqual([
    ["done", "ORCH-1", "done", "done", null],
    ["paused", null, null, null, "a holiday"],
    ["waiting", "ORCH-1", "deploy", "waiting", null],
  ]);
  for (const { headers, body } of receiver.received) {
    const signature = `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
    expect(headers["x-orchestrator-signature"]).toBe(signature);
    expect(body).not.toMatch(/a title|a description/);
  }
});

test("a command is told what blocked a task", async () => {
  const site = await makeSite({ drainMs: 10_000 });
  const told = join(site.folder, "told");
  const command = join(site.folder, "tell.sh");
  await writeFile(command, `#!/bin/sh\ncat >>${told}\n`, { mode: 0o755 });
  await site.hook("analysis", "exit 1");
  const [first, ...rest] = DEFAULT_PIPELINE.stages;
  const scheduler = await startTestScheduler(site, {
    config: {
      pipeline: { ...DEFAULT_PIPELINE, stages: [{ ...first!, maxAttempts: 1 }, ...rest] },
      notify: { target: { kind: "command", command: [command] }, on: ["blocked"] },
    },
  });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { task } = await taskWhen(scheduler, "ORCH-1", (history) => history.task.status === "blocked");
  await scheduler.stop();
  const notification = JSON.parse(await readFile(told, "utf8")) as Notification;
  expect(notification).toMatchObject({
    on: "blocked",
    stage: "analysis",
    status: "blocked",
    reason: task.blockedReason,
  });
});

test("a receiver that hangs holds up neither a work item nor, beyond the drain time, the stop", async () => {
  const receiver = await startReceiver(() => {});
  const site = await makeSite({
    drainMs: 200,
    notify: { target: { kind: "url", url: receiver.url, secret: null }, on: ON },
  });
  const scheduler = await startTestScheduler(site);
  await postTask(scheduler, { workItemId: "ORCH-1" });
  await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status === "done");
  for (let n = 0; n < 8; n++) {
    await scheduler.api.pauseQueue({ repo: "shop" });
    await scheduler.api.resumeQueue({ repo: "shop" });
  }
  await receiver.whenReceived(4);
  expect((await scheduler.api.queueView()).tasks.by_status.done).toBe(1);
  const startedMs = performance.now();
  await scheduler.stop();
  expect(performance.now() - startedMs).toBeLessThan(5_000);
  expect(receiver.received).toHaveLength(4);
});
