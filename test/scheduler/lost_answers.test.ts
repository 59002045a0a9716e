import { systemClock } from "@orchestrator/shared/clock.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import type { Notification } from "@orchestrator/shared/schemas/notification.ts";
import { probeWrite } from "@orchestrator/shared/storage/probe_write.ts";
import { expect, onTestFinished, test } from "vitest";
import { EventNotifier } from "../../services/scheduler/notifier.ts";
import { failNextCommit, unreachable } from "../helpers/failing_commits.ts";
import { SseReader } from "../helpers/sse.ts";
import { problemOf } from "../shared/http/harness.ts";
import { openSite, PASSED, type Site } from "./api/site.ts";

/** A commit is made, and the answer to it is lost on its way from the database's server. */
const loseAnswer = (): void => failNextCommit(unreachable(), { made: true });

const metric = async ({ app }: Site, line: string): Promise<number | null> => {
  const text = await (await app.request("/queue?format=prometheus")).text();
  const found = text.split("\n").find((each) => each.startsWith(`${line} `));
  return found === undefined ? null : Number(found.slice(line.length + 1));
};

test("work items that arrive together are told that nobody knows, and a conflict only when they come again", async () => {
  const { post, api } = await openSite();
  const hand = (workItemId: string) => post("/tasks", { work_item_id: workItemId, title: "A title", repo: "shop" });
  loseAnswer();
  for (const answer of await Promise.all([hand("ORCH-1"), hand("ORCH-2")])) {
    expect(answer.headers.get("retry-after")).toBe("5");
    expect(await problemOf(answer)).toMatchObject({
      ...{
        status: 503,
        code: "unavailable",
        detail: expect.stringContaining("whether anything was changed is not known"),
      },
    });
  }
  expect(await problemOf(await hand("ORCH-2"))).toMatchObject({ status: 409, code: "work_item_exists" });
  expect(await api.findTask({ workItemId: "ORCH-1" })).toMatchObject({ jobs: [{ status: "queued" }] });
});

test("a claim and a settle whose answers were lost are notified, streamed and counted like any other, once", async () => {
  const site = await openSite();
  const { app, storage, config } = site;
  const told: Notification[] = [];
  const log = createLog({ level: "silent", service: "scheduler", secrets: [] });
  const deliver = async (notification: Notification) => {
    told.push(notification);
    return { kind: "delivered", tries: 1 } as const;
  };
  const notifier = new EventNotifier({
    on: ["waiting", "blocked"],
    secrets: [],
    deliver,
    storage,
    clock: systemClock,
    log,
  });
  notifier.start();
  onTestFinished(() => notifier.stop(0));
  const events = new SseReader(await app.request("/events"));

  // `testing` is the stage before the one that asks for approval.
  const before = config.pipeline.stages.findIndex(({ approval }) => approval) - 1;
  const { name: stage, agent } = config.pipeline.stages[before]!;
  await site.create("ORCH-1", { stage });
  await site.create("ORCH-2", { stage, repo: "web" });
  loseAnswer();
  await expect(site.claim()).rejects.toThrow("cannot be reached");
  const { run } = await site.claim();
  loseAnswer();
  await expect(site.settle(run, PASSED)).rejects.toThrow("cannot be reached");
  expect(told).toEqual([]);
  // What the monitor does then.
  expect(await site.settle(run, PASSED)).toEqual({ kind: "settled_before" });
  await storage.write(probeWrite);

  const kinds = ["created", "created", "claimed", "claimed", "advanced", "waiting"];
  expect((await events.take(6)).map(({ id, event }) => [id, event])).toEqual(kinds.map((kind, n) => [n + 1, kind]));
  await events.leave();
  await notifier.stop(5_000);
  expect(told.map(({ id, on, work_item_id: workItemId }) => [id, on, workItemId])).toEqual([[6, "waiting", "ORCH-2"]]);
  expect(await metric(site, `orchestrator_runs_total{agent="${agent}",stage="${stage}",outcome="succeeded"}`)).toBe(1);
  expect(await metric(site, "orchestrator_job_pickup_seconds_count")).toBe(2);
  expect(await metric(site, "orchestrator_run_duration_seconds_count")).toBe(1);
  expect(await metric(site, 'orchestrator_jobs{status="running"}')).toBe(1);
  expect(await metric(site, `orchestrator_stage_transitions_total{from="${stage}",to="deploy"}`)).toBe(1);
});
