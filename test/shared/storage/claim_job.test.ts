import { isoTime } from "@orchestrator/shared/clock.ts";
import { type ClaimRules, claimJob } from "@orchestrator/shared/storage/claim_job.ts";
import { describe, expect, test } from "vitest";
import { FakeClock } from "../../helpers/fake_clock.ts";
import { insertTaskWithJob } from "../../helpers/insert.ts";
import { openTestStorage } from "../../helpers/storage.ts";

const rules = (over: Partial<ClaimRules> = {}): ClaimRules => ({
  limits: { total: 100, perRepo: {}, perAgent: {} },
  environments: { shop: "shop", blog: "blog" },
  probes: () => new Set(),
  modelOf: () => null,
  logPathOf: (runId) => `/logs/${runId}.log`,
  ...over,
});

const setup = async () => {
  const clock = new FakeClock();
  const { storage } = await openTestStorage({ clock });
  const add = (workItemId: string, task: object = {}, job: object = {}) =>
    insertTaskWithJob(storage, { workItemId, ...task }, { availableAt: isoTime(clock.now()), ...job });
  const claim = async (over: Partial<ClaimRules> = {}) =>
    (await storage.write((tx) => claimJob(tx, rules(over))))?.task.workItemId ?? null;
  return { clock, storage, add, claim };
};

test("a claim makes the job running, writes the run, leases the task and says so, all in one", async () => {
  const { storage, add } = await setup();
  await add("A");
  const claim = await storage.write((tx) => claimJob(tx, rules({ modelOf: () => "opus" })));
  expect(claim?.job).toMatchObject({ status: "running", runId: claim?.run.id, attempt: 1 });
  expect(claim?.run).toMatchObject({
    jobId: claim?.job.id,
    modelUsed: "opus",
    logPath: "/logs/1.log",
    outcome: null,
    pid: null,
  });
  expect(claim?.task.leaseRunId).toBe(claim?.run.id);
  expect(await storage.query("SELECT status, run_id FROM jobs")).toEqual([{ status: "running", runId: claim?.run.id }]);
  expect(await storage.query("SELECT log_path FROM agent_runs")).toEqual([{ logPath: "/logs/1.log" }]);
  expect(await storage.query("SELECT kind FROM task_events")).toEqual([{ kind: "claimed" }]);
  expect(storage.tally.jobs()).toMatchObject({ queued: 0, running: 1 });
});

test("order: priority high first, then due time, then id; what is not due yet is passed over", async () => {
  const { clock, add, claim } = await setup();
  const later = isoTime(clock.now() + 10_000);
  const earlier = isoTime(clock.now() - 10_000);
  await add("plain-1");
  await add("plain-2");
  await add("early", {}, { availableAt: earlier });
  await add("urgent-later", { priority: 9 }, { availableAt: later, priority: 9 });
  await add("urgent", { priority: 5 }, { priority: 5 });
  expect([await claim(), await claim(), await claim(), await claim(), await claim()]).toEqual([
    "urgent",
    "early",
    "plain-1",
    "plain-2",
    null,
  ]);
  clock.advance(10_000);
  expect(await claim()).toBe("urgent-later");
});

describe("limits", () => {
  test("in total", async () => {
    const { add, claim } = await setup();
    for (const id of ["A", "B", "C"]) await add(id);
    const limits = { total: 2, perRepo: {}, perAgent: {} };
    expect([await claim({ limits }), await claim({ limits }), await claim({ limits })]).toEqual(["A", "B", null]);
  });

  test.each([
    ["a repository of its own number", { shop: 1 }],
    ["a repository by default", { default: 1, blog: 5 }],
  ])("%s: the next repository goes first", async (_, perRepo) => {
    const { add, claim } = await setup();
    await add("A");
    await add("B");
    await add("C", { repo: "blog" });
    const limits = { total: 9, perRepo, perAgent: {} };
    expect([await claim({ limits }), await claim({ limits }), await claim({ limits })]).toEqual(["A", "C", null]);
  });

  test("an agent", async () => {
    const { add, claim } = await setup();
    await add("A", {}, { agent: "developer" });
    await add("B", {}, { agent: "developer" });
    await add("C", {}, { agent: "reviewer" });
    const limits = { total: 9, perRepo: {}, perAgent: { developer: 1 } };
    expect([await claim({ limits }), await claim({ limits }), await claim({ limits })]).toEqual(["A", "C", null]);
  });

  test("one staging run an environment: repositories that share one wait, others do not, other stages do not", async () => {
    const { add, claim } = await setup();
    const staging = { stage: "deploy-staging" };
    await add("A", { ...staging }, { agent: "deployer" });
    await add("B", { ...staging, repo: "blog" }, { agent: "deployer" });
    await add("C", { ...staging, repo: "wiki" }, { agent: "deployer" });
    await add("D", { repo: "blog" });
    const environments = { shop: "shared", blog: "shared", wiki: "wiki" };
    const claims = [
      await claim({ environments }),
      await claim({ environments }),
      await claim({ environments }),
      await claim({ environments }),
    ];
    expect(claims).toEqual(["A", "C", "D", null]);
  });
});

test.each([
  ["all", [null, null]],
  ["agent:analyst", ["B", null]],
  ["repo:shop", ["B", null]],
  ["staging", ["A", null]],
])("with %s paused, what is not paused is claimed", async (what, expected) => {
  const { storage, add, claim } = await setup();
  await add("A", {}, { agent: "analyst" });
  await add("B", { stage: "deploy-staging", repo: "blog" }, { agent: "deployer" });
  await storage.write((tx) =>
    tx.run("INSERT INTO queue_state (what, reason, since) VALUES (?, 'test', ?)", [what, tx.now]),
  );
  expect([await claim(), await claim()]).toEqual(expected);
});

test("a paused place that may be probed is claimed from", async () => {
  const { storage, add, claim } = await setup();
  await add("A");
  await storage.write((tx) =>
    tx.run("INSERT INTO queue_state (what, reason, since) VALUES ('repo:shop', 'test', ?)", [tx.now]),
  );
  expect(await claim()).toBe(null);
  expect(await claim({ probes: () => new Set(["agent:other"]) })).toBe(null);
  expect(await claim({ probes: () => new Set(["repo:shop"]) })).toBe("A");
});
