import type { Job, Run } from "@orchestrator/shared/schemas/rows.ts";
import { expect, test } from "vitest";
import { databaseHash } from "../../helpers/database_hash.ts";
import { openSite, PASSED } from "./site.ts";

const CANCELLED = "a person cancelled the task";

test("a task in the queue is cancelled with its job", async () => {
  const { create, post, history, storage } = await openSite();
  const { id } = await create("ORCH-1");
  const answer = await post(`/tasks/${id}/cancel`);
  expect(answer.status).toBe(200);
  expect(await answer.json()).toMatchObject({ id, status: "cancelled", stage: "analysis", lease_run_id: null });
  const { task, jobs, runs, events } = await history(id);
  expect(task.status).toBe("cancelled");
  expect(jobs).toMatchObject([{ status: "cancelled", error: CANCELLED, finishedAt: task.updatedAt }]);
  expect(runs).toEqual([]);
  expect(events.at(-1)).toMatchObject({
    kind: "cancelled",
    jobId: jobs[0]!.id,
    detail: { by: "person", stage: "analysis" },
  });
  expect(storage.tally.jobs()).toMatchObject({ queued: 0, cancelled: 1 });
  expect(storage.tally.tasksByStatus()).toMatchObject({ active: 0, cancelled: 1 });
});

test("the person's reason stands in the history", async () => {
  const { create, post, history } = await openSite();
  await create("ORCH-1");
  await post("/tasks/ORCH-1/cancel", { reason: "no longer wanted" });
  const { events, jobs } = await history(1);
  expect(events.at(-1)!.detail).toMatchObject({ reason: "no longer wanted", by: "person" });
  expect(jobs[0]!.error).toBe(`${CANCELLED}: no longer wanted`);
});

test("a running one is recorded as cancelled, then ended with the same ending; its settle finds itself done", async () => {
  const { create, claim, post, settle, history, storage } = await openSite();
  const { id } = await create("ORCH-1");
  const { run } = await claim();
  expect((await post(`/tasks/${id}/cancel`)).status).toBe(200);

  const { task, jobs, runs, events } = await history(id);
  expect([task.status, task.leaseRunId]).toEqual(["cancelled", null]);
  expect(jobs).toMatchObject([{ status: "cancelled", runId: run.claim.run.id }] satisfies Partial<Job>[]);
  expect(runs).toMatchObject([
    { outcome: "cancelled", outcomeClass: null, reason: CANCELLED },
  ] satisfies Partial<Run>[]);
  expect(events.at(-1)).toMatchObject({ kind: "cancelled", runId: run.claim.run.id });
  expect(run.signal.aborted).toBe(true);
  expect(run.endReason).toEqual({ outcome: "cancelled", class: null, reason: CANCELLED });

  const before = await databaseHash(storage);
  const settlement = await settle(run, { kind: "ended", ...run.endReason!, runsAgentAgain: true });
  expect(settlement).toEqual({ kind: "settled_before" });
  expect(await databaseHash(storage)).toBe(before);
});

test("a run that is being finalized is let be: its settle comes too late and changes nothing", async () => {
  const { create, claim, post, settle, history, storage } = await openSite();
  const { id } = await create("ORCH-1");
  const { run } = await claim();
  run.finalizing();
  await post(`/tasks/${id}/cancel`);
  expect(run.signal.aborted).toBe(false);
  const before = await databaseHash(storage);
  expect(await settle(run, PASSED)).toEqual({ kind: "superseded" });
  expect(await databaseHash(storage)).toBe(before);
  expect((await history(id)).task).toMatchObject({ status: "cancelled", stage: "analysis", head: null });
});

test.each(["waiting", "blocked"] as const)(
  "a task that is %s is cancelled, and its branch is free again",
  async (status) => {
    const { createWaiting, createBlocked, create, post, history } = await openSite();
    const { id } = await (status === "waiting" ? createWaiting("ORCH-1") : createBlocked("ORCH-1"));
    expect((await post(`/tasks/${id}/cancel`)).status).toBe(200);
    expect((await history(id)).task).toMatchObject({ status: "cancelled", blockedReason: null });
    expect((await create("ORCH-2", { branch: "work/ORCH-1" })).status).toBe("active");
  },
);

test("of a cancel and a settle at the same time one comes first, and the other changes nothing", async () => {
  for (const order of ["cancel first", "settle first"]) {
    const { create, claim, post, settle, history } = await openSite();
    const { id } = await create("ORCH-1");
    const { run } = await claim();
    const cancel = () => post(`/tasks/${id}/cancel`);
    const pass = () => settle(run, PASSED);
    const [cancelled, settled] =
      order === "cancel first"
        ? await Promise.all([cancel(), pass()])
        : (await Promise.all([pass(), cancel()])).reverse();
    const { task, jobs } = await history(id);
    // Either way the task ends cancelled; what the settle made of the job stays where it came first.
    expect((cancelled as Response).status).toBe(200);
    expect(task.status).toBe("cancelled");
    const cancelCameFirst = (settled as { kind: string }).kind === "superseded";
    expect(jobs.map((job) => job.status)).toEqual(cancelCameFirst ? ["cancelled"] : ["done", "cancelled"]);
    expect(task.stage).toBe(cancelCameFirst ? "analysis" : "architecture");
  }
});
