import { type ClaimRules, claimJob } from "@orchestrator/shared/storage/claim_job.ts";
import { findJob } from "@orchestrator/shared/storage/read_jobs.ts";
import { findTask } from "@orchestrator/shared/storage/read_tasks.ts";
import { expect, test } from "vitest";
import { insertTaskWithJob } from "../../helpers/insert.ts";
import { openTestStorage } from "../../helpers/storage.ts";

const RULES: ClaimRules = {
  limits: { total: 4, perRepo: {}, perAgent: {} },
  environments: {},
  probes: () => new Set(),
  modelOf: (agent) => `model of ${agent}`,
  logPathOf: (runId) => `/logs/${runId}.log`,
};

test("a new task and its job are answered exactly as they are stored", async () => {
  const { storage } = await openTestStorage();
  await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
  const made = await insertTaskWithJob(
    storage,
    { workItemId: "ORCH-2", priority: -3, stage: "review" },
    { priority: 7 },
  );
  const { task, jobs } = (await findTask(storage, { workItemId: "ORCH-2" }))!;
  expect(made).toEqual({ task, job: jobs[0] });
});

test("a claim is answered exactly as it is stored", async () => {
  const { storage } = await openTestStorage();
  await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
  const claim = (await storage.write((tx) => claimJob(tx, RULES)))!;
  const stored = (await findJob(storage, claim.job.id))!;
  const { task } = (await findTask(storage, { id: claim.task.id }))!;
  expect(claim).toEqual({ job: stored.job, task, run: stored.runs[0] });
  expect(claim.run).toMatchObject({ modelUsed: "model of analyst", logPath: `/logs/${claim.run.id}.log` });
});

test("a refused task takes no id, and what was inserted before it is not taken for it", async () => {
  const { storage } = await openTestStorage();
  const { task } = await insertTaskWithJob(storage, { workItemId: "ORCH-1" });
  await expect(insertTaskWithJob(storage, { workItemId: "ORCH-1", branch: "other" })).rejects.toThrow(
    "work_item_exists",
  );
  await expect(insertTaskWithJob(storage, { workItemId: "ORCH-2", branch: "work/ORCH-1" })).rejects.toThrow(
    "branch_taken",
  );
  const next = await insertTaskWithJob(storage, { workItemId: "ORCH-3" });
  expect(next.task.id).toBe(task.id + 1);
  expect(storage.tally.jobs().queued).toBe(2);
});
