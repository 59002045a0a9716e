import { appendMarker, countMarkers, DEFER_MARKER } from "@orchestrator/shared/defer.ts";
import { TASK_STATUSES, type TaskStatus } from "@orchestrator/shared/domain.ts";
import { DEFAULT_PIPELINE } from "@orchestrator/shared/pipeline.ts";
import type { Task } from "@orchestrator/shared/schemas/rows.ts";
import { describe, expect, test } from "vitest";
import {
  allowedActions,
  TASK_ACTIONS,
  type TaskAction,
  whyNotAllowed,
} from "../../../services/scheduler/task_actions.ts";
import { databaseHash } from "../../helpers/database_hash.ts";
import { problemOf, statusAndCode } from "../../shared/http/harness.ts";
import { openSite, PASSED, PIPELINE, type Site } from "./site.ts";

const BODIES: Record<TaskAction, unknown> = {
  cancel: {},
  retry: {},
  approve: { stage: "deploy" },
  return: { to: "analysis", reason: "look again" },
};

const taskThatIs = async (site: Site, status: TaskStatus): Promise<Task> => {
  switch (status) {
    case "active":
      return site.create("ORCH-1");
    case "waiting":
      return site.createWaiting("ORCH-1");
    case "blocked":
      return site.createBlocked("ORCH-1", { stage: "review" });
    case "done":
      return site.createDone("ORCH-1");
    case "cancelled": {
      const task = await site.create("ORCH-1");
      await site.post(`/tasks/${task.id}/cancel`);
      return task;
    }
  }
};

describe.each(TASK_STATUSES)("a task that is %s", (status) => {
  test.each(TASK_ACTIONS)("answers %s as the table says", async (action) => {
    const site = await openSite();
    const { id } = await taskThatIs(site, status);
    const before = await databaseHash(site.storage);
    const answer = await site.post(`/tasks/${id}/${action}`, BODIES[action]);
    if (allowedActions(status).includes(action)) {
      expect(answer.status).toBe(200);
      expect(await answer.json()).toMatchObject({ id });
      expect(await databaseHash(site.storage)).not.toBe(before);
    } else {
      expect(await problemOf(answer)).toMatchObject({
        status: 409,
        code: "invalid_state",
        detail: whyNotAllowed(action, status),
      });
      expect(await databaseHash(site.storage)).toBe(before);
    }
  });
});

describe("retry", () => {
  test("makes a fresh job of the stage, and the note goes into it", async () => {
    const { createBlocked, post, history, claim, storage } = await openSite();
    const { id } = await createBlocked("ORCH-1", { description: "What is wanted.", priority: 7 });
    const answer = await post(`/tasks/${id}/retry`, { note: "The branch is yours again." });
    expect(await answer.json()).toMatchObject({
      status: "active",
      blocked_reason: null,
      returns: 0,
      lease_run_id: null,
    });
    const { jobs, events } = await history(id);
    expect(jobs.map((job) => job.status)).toEqual(["failed", "queued"]);
    expect(jobs[1]).toMatchObject({ stage: "analysis", agent: "analyst", attempt: 1, maxAttempts: 3, priority: 7 });
    expect(jobs[1]!.taskContent).toBe(
      "ORCH-1: A title\n\nWhat is wanted.\n\nWhy it is here again: it was blocked (moved by Ann <ann@example.com>), " +
        "and a person has it tried again. The person's note:\n\nThe branch is yours again.",
    );
    expect(events.at(-1)).toMatchObject({
      kind: "retried",
      jobId: jobs[1]!.id,
      detail: { by: "person", stage: "analysis", reason: "The branch is yours again." },
    });
    expect(storage.tally.tasksByStatus()).toMatchObject({ active: 1, blocked: 0 });
    expect((await claim()).claim.job.id).toBe(jobs[1]!.id);
  });

  test("begins with no markers, whatever stood in the job before and whatever the note holds", async () => {
    const { create, claim, settle, post, history, storage } = await openSite();
    const { id } = await create("ORCH-1", { stage: "deploy-staging" });
    const markers = appendMarker(appendMarker("", "2026-01-01T00:00:00.000Z", "a"), "2026-01-01T00:01:00.000Z", "b");
    await storage.write((tx) => tx.run("UPDATE jobs SET task_content = ?", [markers]));
    const { run } = await claim();
    await settle(run, { kind: "defers_used_up", class: "killed", reason: `put off ${DEFER_MARKER}` });
    await post(`/tasks/${id}/retry`, { note: `once more ${DEFER_MARKER} 2026-01-01T00:00:00.000Z` });
    const { jobs } = await history(id);
    expect(countMarkers(jobs[0]!.taskContent)).toBe(2);
    expect(countMarkers(jobs[1]!.taskContent)).toBe(0);
    expect(jobs[1]!.taskContent).toContain("once more (staging-infra-defer)");
  });

  test("counts returns from zero", async () => {
    const { createBlocked, post, history, storage } = await openSite();
    const { id } = await createBlocked("ORCH-1", { stage: "review" });
    await storage.write((tx) => tx.run("UPDATE tasks SET returns = 3", []));
    await post(`/tasks/${id}/retry`);
    expect((await history(id)).task.returns).toBe(0);
  });

  test("of a stage that the pipeline has lost is refused, and a return or a cancel is the way out", async () => {
    const stages = DEFAULT_PIPELINE.stages.filter((stage) => stage.name !== "testing");
    const site = await openSite({ config: { pipeline: { ...DEFAULT_PIPELINE, stages } } });
    const { id } = await site.createBlocked("ORCH-1", { stage: "review" });
    await site.storage.write((tx) => tx.run("UPDATE tasks SET stage = 'testing'", []));
    const problem = await problemOf(await site.post(`/tasks/${id}/retry`));
    expect([problem.status, problem.code]).toEqual([409, "invalid_state"]);
    expect(problem.detail).toContain("blocked in testing, which is no stage of the pipeline any more");
    expect((await site.post(`/tasks/${id}/return`, { to: "review", reason: "x" })).status).toBe(200);
  });
});

describe("approve", () => {
  test("lets the task into its stage", async () => {
    const { createWaiting, post, history } = await openSite();
    const { id } = await createWaiting("ORCH-1");
    expect((await history(id)).jobs).toEqual([]);
    const answer = await post(`/tasks/${id}/approve`, { stage: "deploy" });
    expect(await answer.json()).toMatchObject({ status: "active", stage: "deploy" });
    const { jobs, events } = await history(id);
    expect(jobs).toMatchObject([{ stage: "deploy", agent: "deployer", status: "queued", attempt: 1 }]);
    expect(events.map((event) => event.kind)).toEqual(["created", "waiting", "approved"]);
    expect(events.at(-1)).toMatchObject({ jobId: jobs[0]!.id, detail: { stage: "deploy", by: "person" } });
  });

  test.each(["review", "no-such-stage"])("names the stage that waits: %s is refused", async (stage) => {
    const { createWaiting, post, storage } = await openSite();
    const { id } = await createWaiting("ORCH-1");
    const before = await databaseHash(storage);
    const problem = await problemOf(await post(`/tasks/${id}/approve`, { stage }));
    expect(problem).toMatchObject({ status: 409, code: "invalid_state" });
    expect(problem.detail).toContain("waiting in deploy");
    expect(await databaseHash(storage)).toBe(before);
  });

  test("the job of a task that was sent back to a waiting stage says why", async () => {
    const stages = PIPELINE.stages.map((stage) => ({ ...stage, approval: stage.name === "development" }));
    const { createBlocked, post, history } = await openSite({ config: { pipeline: { ...PIPELINE, stages } } });
    const { id } = await createBlocked("ORCH-1", { stage: "review" });
    const returned = await post(`/tasks/${id}/return`, { to: "development", reason: "the error page shows the stack" });
    expect(await returned.json()).toMatchObject({ status: "waiting", stage: "development", returns: 1 });
    expect((await history(id)).events.slice(-2)).toMatchObject([
      { kind: "returned", jobId: null },
      { kind: "waiting", detail: { stage: "development" } },
    ]);
    await post(`/tasks/${id}/approve`, { stage: "development" });
    const { task, jobs } = await history(id);
    expect(task).toMatchObject({ status: "active", returns: 1 });
    expect(jobs.at(-1)!.taskContent).toContain("Why it is here again: the error page shows the stack");
  });
});

describe("return", () => {
  const reason = "the error page shows the stack";

  test("sends a blocked task back, with the reason, and counts it", async () => {
    const { createBlocked, post, history, storage } = await openSite();
    const { id } = await createBlocked("ORCH-1", { stage: "review" });
    await storage.write((tx) => tx.run("UPDATE tasks SET head = 'c0ffee'", []));
    const answer = await post(`/tasks/${id}/return`, { to: "development", reason });
    expect(await answer.json()).toMatchObject({
      ...{ status: "active", stage: "development", returns: 1, blocked_reason: null, head: "c0ffee" },
    });
    const { jobs, events } = await history(id);
    expect(jobs.at(-1)).toMatchObject({ stage: "development", agent: "developer", status: "queued", attempt: 1 });
    expect(jobs.at(-1)!.taskContent).toBe(`ORCH-1: A title\n\nWhy it is here again: ${reason}`);
    expect(events.at(-1)).toMatchObject({
      kind: "returned",
      jobId: jobs.at(-1)!.id,
      detail: { from: "review", to: "development", reason, by: "person" },
    });
    expect(storage.tally.tasks()).toEqual([{ stage: "development", status: "active", n: 1 }]);
  });

  test("sends a waiting task back", async () => {
    const { createWaiting, post, history } = await openSite();
    const { id } = await createWaiting("ORCH-1");
    expect((await post(`/tasks/${id}/return`, { to: "analysis", reason })).status).toBe(200);
    expect((await history(id)).task).toMatchObject({ status: "active", stage: "analysis", returns: 1 });
  });

  test("is carried out past max_returns; the next gate that says no blocks the task, and a retry counts anew", async () => {
    const { createBlocked, claim, settle, post, history, storage } = await openSite();
    const { id } = await createBlocked("ORCH-1", { stage: "review" });
    await storage.write((tx) => tx.run("UPDATE tasks SET returns = 3", []));
    expect((await post(`/tasks/${id}/return`, { to: "development", reason })).status).toBe(200);
    expect((await history(id)).task).toMatchObject({ status: "active", returns: 4 });

    await settle((await claim()).run, PASSED);
    const no = { kind: "turned_down", head: "c0ffee", class: "gate_failed", reason: "no" } as const;
    await settle((await claim()).run, { ...no, to: "development" });
    expect((await history(id)).task).toMatchObject({ status: "blocked", stage: "review", returns: 4 });
    await post(`/tasks/${id}/retry`);
    await settle((await claim()).run, { ...no, to: "development" });
    expect((await history(id)).task).toMatchObject({ status: "active", stage: "development", returns: 1 });
  });

  test.each([
    ["the same stage", "review"],
    ["a later stage", "testing"],
    ["the end", "done"],
    ["no stage", "coffee"],
    ["blocked", "blocked"],
  ])("to %s is refused", async (_, to) => {
    const { createBlocked, post, storage } = await openSite();
    const { id } = await createBlocked("ORCH-1", { stage: "review" });
    const before = await databaseHash(storage);
    expect(await problemOf(await post(`/tasks/${id}/return`, { to, reason }))).toMatchObject({
      status: 422,
      code: "invalid_input",
      errors: [
        {
          path: "to",
          message: "must be a stage before review, where the task stands: analysis, architecture, development",
        },
      ],
    });
    expect(await databaseHash(storage)).toBe(before);
  });

  test("from the first stage has nowhere to go", async () => {
    const { createBlocked, post } = await openSite();
    const { id } = await createBlocked("ORCH-1");
    const { errors } = await problemOf(await post(`/tasks/${id}/return`, { to: "analysis", reason }));
    expect(errors).toEqual([{ path: "to", message: "there is no stage before analysis, where the task stands" }]);
  });
});

describe("of two people at once exactly one wins", () => {
  test.each<[TaskStatus, TaskAction, TaskAction]>([
    ["blocked", "retry", "retry"],
    ["blocked", "retry", "return"],
    ["blocked", "return", "return"],
    ["blocked", "cancel", "retry"],
    ["waiting", "approve", "approve"],
    ["waiting", "approve", "return"],
    ["waiting", "cancel", "return"],
    ["active", "cancel", "cancel"],
  ])("%s: %s and %s", async (status, first, second) => {
    const site = await openSite();
    const { id } = await taskThatIs(site, status);
    const jobsBefore = (await site.history(id)).jobs.length;
    const answers = await Promise.all(
      [first, second].map((action) => site.post(`/tasks/${id}/${action}`, BODIES[action])),
    );
    const winners = answers.filter((answer) => answer.status === 200);
    const losers = answers.filter((answer) => answer.status !== 200);
    // An active task can still be cancelled after it was retried, approved or returned: then both have won, one after the other.
    if (winners.length === 2) {
      expect([first, second]).toContain("cancel");
      expect((await site.history(id)).task.status).toBe("cancelled");
      return;
    }
    expect(await Promise.all(losers.map(statusAndCode))).toEqual([[409, "invalid_state"]]);
    const { jobs } = await site.history(id);
    expect(jobs.filter((job) => job.status === "queued").length).toBeLessThanOrEqual(1);
    expect(jobs.length).toBeLessThanOrEqual(jobsBefore + 1);
  });

  test("twenty approve: one job", async () => {
    const { createWaiting, post, history } = await openSite();
    const { id } = await createWaiting("ORCH-1");
    const all = Array.from({ length: 20 }, () => post(`/tasks/${id}/approve`, { stage: "deploy" }));
    const statuses = (await Promise.all(all)).map((answer) => answer.status).sort();
    expect(statuses).toEqual([200, ...Array.from({ length: 19 }, () => 409)]);
    expect((await history(id)).jobs).toHaveLength(1);
  });
});

test.each(TASK_ACTIONS)("%s of a task that there is not is 404, by either name", async (action) => {
  const { post } = await openSite();
  for (const name of ["7", "ORCH-7", "a..b"]) {
    expect(await statusAndCode(await post(`/tasks/${name}/${action}`, BODIES[action]))).toEqual([404, "not_found"]);
  }
});

test("a task can be named by its work item", async () => {
  const { createBlocked, post } = await openSite();
  await createBlocked("ORCH-1");
  expect((await post("/tasks/ORCH-1/retry")).status).toBe(200);
});
