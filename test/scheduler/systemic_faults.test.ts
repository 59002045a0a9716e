import type { RepoConfig } from "@orchestrator/shared/config/config.ts";
import { createLog } from "@orchestrator/shared/log.ts";
import { DEFAULT_PIPELINE } from "@orchestrator/shared/pipeline.ts";
import type { Job } from "@orchestrator/shared/schemas/rows.ts";
import { type Claim, type ClaimRules, claimJob } from "@orchestrator/shared/storage/claim_job.ts";
import { deletePause } from "@orchestrator/shared/storage/delete_pause.ts";
import { finishRun } from "@orchestrator/shared/storage/finish_run.ts";
import { probeWrite } from "@orchestrator/shared/storage/probe_write.ts";
import { readPauses } from "@orchestrator/shared/storage/read_pauses.ts";
import { describe, expect, test, vi } from "vitest";
import { pauseQueue } from "../../services/scheduler/pause_queue.ts";
import type { RunEnding } from "../../services/scheduler/run_result.ts";
import { SystemicFaults } from "../../services/scheduler/systemic_faults.ts";
import { failNextCommit, unreachable } from "../helpers/failing_commits.ts";
import { FakeClock } from "../helpers/fake_clock.ts";
import { insertTaskWithJob } from "../helpers/insert.ts";
import { openTestStorage } from "../helpers/storage.ts";

const toolError = (code: string): RunEnding => ({ outcome: "tool_error", class: code, reason: `${code} happened` });
const succeeded: RunEnding = { outcome: "succeeded", class: null, reason: null };

const setup = async () => {
  const clock = new FakeClock();
  const { storage } = await openTestStorage({ clock });
  const log = createLog({ level: "silent", service: "scheduler", secrets: [] });
  const faults = new SystemicFaults({ storage, clock, log });
  const rules: ClaimRules = {
    limits: { total: 99, perRepo: {}, perAgent: {} },
    environments: {},
    probes: () => faults.probes(),
    modelOf: () => null,
    logPathOf: String,
  };
  let n = 0;
  /** Claims a job of a new task, as the dispatcher would. */
  const claim = async (task: object = {}, job: Partial<Pick<Job, "agent">> = {}) => {
    n += 1;
    await insertTaskWithJob(storage, { workItemId: `ORCH-${n}`, ...task }, job);
    return claimNext();
  };
  const claimNext = () => storage.write((tx) => claimJob(tx, rules));
  /** Records how a claimed run ended, as its settle would. */
  const end = async (claimed: Claim | null, ending: RunEnding) => {
    await storage.write((tx) => finishRun(tx, claimed!.run.id, ending));
    await faults.idle();
  };
  const fail = async (code: string, task: object = {}, job: Partial<Pick<Job, "agent">> = {}) =>
    end(await claim(task, job), toolError(code));
  const paused = async () => (await readPauses(storage)).map(({ what }) => what);
  return { clock, storage, log, faults, rules, claim, claimNext, end, fail, paused };
};

test("the same tool error on three different tasks in a row pauses what it speaks of, with an event that says why", async () => {
  const { storage, fail, paused } = await setup();
  await fail("git_fetch");
  await fail("git_fetch");
  expect(await paused()).toEqual([]);
  await fail("git_fetch");
  expect(await paused()).toEqual(["repo:shop"]);
  const events = await storage.query<{ detail: string }>("SELECT detail FROM task_events WHERE kind = 'paused'");
  expect(events.map(({ detail }) => JSON.parse(detail))).toEqual([
    { what: "repo:shop", class: "git_fetch", by: "scheduler", reason: expect.stringContaining("git_fetch happened") },
  ]);
});

test("three agents that meet the same in one repository pause the repository, be it no fault of git", async () => {
  const { fail, paused } = await setup();
  for (const agent of ["analyst", "developer", "reviewer"]) {
    expect(await paused()).toEqual([]);
    await fail("launch_timeout", {}, { agent });
  }
  expect(await paused()).toEqual(["repo:shop"]);
});

test("a stager that crashes at each run pauses staging, although it cannot be reached between two of them", async () => {
  const { fail, paused } = await setup();
  const staging = { stage: "deploy-staging" };
  for (const code of ["stager_lost", "stager_unreachable", "stager_lost", "stager_unreachable"])
    await fail(code, staging, { agent: "deployer" });
  expect(await paused()).toEqual([]);
  await fail("stager_lost", staging, { agent: "deployer" });
  expect(await paused()).toEqual(["staging"]);
});

describe("a row of tool errors stands over an end that found nothing out:", () => {
  test.each<RunEnding>([
    { outcome: "tool_error", class: "database", reason: "database is locked" },
    { outcome: "cancelled", class: null, reason: "a person cancelled the task" },
    { outcome: "interrupted", class: "shutdown", reason: "the scheduler was stopped" },
    { outcome: "failed", class: "lost", reason: "nobody was at work on it" },
    { outcome: "superseded", class: null, reason: "came too late" },
  ])("$outcome $class", async (ending) => {
    const { claim, end, fail, paused } = await setup();
    await fail("git_fetch");
    await end(await claim(), ending);
    await fail("git_fetch");
    await end(await claim(), ending);
    expect(await paused()).toEqual([]);
    await fail("git_fetch");
    expect(await paused()).toEqual(["repo:shop"]);
  });
});

test("a repository's fault stops its agent nowhere else, and an agent's fault no other agent", async () => {
  const { claim, fail, paused } = await setup();
  for (let n = 0; n < 3; n++) await fail("git_push");
  for (let n = 0; n < 3; n++) await fail("command_not_found", { repo: "blog" }, { agent: "developer" });
  expect((await paused()).sort()).toEqual(["agent:developer", "repo:shop"]);
  expect(await claim({ repo: "wiki" })).not.toBe(null);
  expect(await claim({ repo: "blog" })).not.toBe(null);
});

describe("it is not three in a row", () => {
  test("when a success stands between them", async () => {
    const { claim, end, fail, paused } = await setup();
    await fail("git_fetch");
    await fail("git_fetch");
    await end(await claim(), succeeded);
    await fail("git_fetch");
    expect(await paused()).toEqual([]);
  });

  test("when another class stands between them", async () => {
    const { fail, paused } = await setup();
    for (const code of ["git_fetch", "git_fetch", "git_push", "git_fetch", "git_fetch"]) await fail(code);
    expect(await paused()).toEqual([]);
  });

  test("when they are of one task, however often it fails", async () => {
    const { storage, claim, claimNext, end, paused } = await setup();
    const { job } = (await claim())!;
    for (let n = 0; n < 9; n++) {
      await storage.write((tx) => tx.run("UPDATE jobs SET status = 'queued', run_id = NULL WHERE id = ?", [job.id]));
      await end(await claimNext(), toolError("git_fetch"));
    }
    expect(await paused()).toEqual([]);
  });

  test("when both the repositories and the agents differ", async () => {
    const { fail, paused } = await setup();
    const places = { shop: "analyst", blog: "developer", wiki: "reviewer" };
    for (const [repo, agent] of Object.entries(places)) await fail("git_fetch", { repo }, { agent });
    expect(await paused()).toEqual([]);
  });

  test("when nobody could reach the stager: that waits by itself", async () => {
    const { fail, paused } = await setup();
    for (let n = 0; n < 5; n++) await fail("stager_unreachable", { stage: "deploy-staging" });
    expect(await paused()).toEqual([]);
  });
});

const pausedRepo = async () => {
  const site = await setup();
  for (let n = 0; n < 3; n++) await site.fail("git_fetch");
  return site;
};

describe("a paused repository", () => {
  test("is probed by one job after a minute, and goes on when the probe goes through", async () => {
    const { clock, storage, faults, claim, end, paused } = await pausedRepo();
    expect(await claim()).toBe(null);
    expect(faults.nextProbeInMs()).toBe(60_000);
    clock.advance(60_000);
    const probe = await claim();
    expect(probe).not.toBe(null);
    expect(await claim()).toBe(null);
    await end(probe, succeeded);
    expect(await paused()).toEqual([]);
    expect(await claim()).not.toBe(null);
    const events = await storage.query("SELECT detail ->> 'by' AS by FROM task_events WHERE kind = 'resumed'");
    expect(events).toEqual([{ by: "probe" }]);
  });

  test("waits twice as long after each probe that fails, up to half an hour", async () => {
    const { clock, faults, claim, end, paused } = await pausedRepo();
    const waits: (number | null)[] = [];
    for (let n = 0; n < 7; n++) {
      waits.push(faults.nextProbeInMs());
      clock.advance(faults.nextProbeInMs()!);
      await end(await claim(), toolError("git_fetch"));
    }
    expect(waits.map((ms) => ms! / 60_000)).toEqual([1, 2, 4, 8, 16, 30, 30]);
    expect(await paused()).toEqual(["repo:shop"]);
  });

  test("is still known as paused by a fault after a restart, and probed", async () => {
    const { clock, storage, log } = await pausedRepo();
    const after = new SystemicFaults({ storage, clock, log });
    after.restore(await readPauses(storage));
    expect(after.nextProbeInMs()).toBe(60_000);
  });

  test("is probed although the answer to its pause was lost", async () => {
    const { storage, faults, fail, paused } = await setup();
    await fail("git_fetch");
    await fail("git_fetch");
    const unsubscribe = storage.onCommitted(({ ended }) => {
      // What the third end leads to is written next.
      if (ended.length > 0) failNextCommit(unreachable(), { made: true });
    });
    await fail("git_fetch");
    unsubscribe();
    expect(await paused()).toEqual(["repo:shop"]);
    await storage.write(probeWrite);
    expect(faults.nextProbeInMs()).toBe(60_000);
  });

  test("that a person has paused is not probed", async () => {
    const { clock, storage, log } = await setup();
    await storage.write((tx) =>
      tx.run("INSERT INTO queue_state VALUES ('repo:shop', 'paused by a person', ?)", [tx.now]),
    );
    const after = new SystemicFaults({ storage, clock, log });
    after.restore(await readPauses(storage));
    expect(after.nextProbeInMs()).toBe(null);
  });

  test("that a person has resumed is forgotten", async () => {
    const { storage, faults } = await pausedRepo();
    await storage.write(async (tx) => {
      await tx.run("DELETE FROM queue_state");
      await tx.event("resumed", { taskId: null }, { what: "repo:shop", by: "person" });
    });
    expect(faults.nextProbeInMs()).toBe(null);
  });

  test("that a person pauses as well is theirs to end", async () => {
    const { clock, storage, faults, paused } = await pausedRepo();
    const config = { pipeline: DEFAULT_PIPELINE, agents: {}, repos: { shop: {} as RepoConfig } };
    await pauseQueue({ storage, config }, { repo: "shop", reason: "the server is being moved" });
    clock.advance(60_000);
    expect([...faults.probes()]).toEqual([]);
    expect(await paused()).toEqual(["repo:shop"]);
  });

  test.each<RunEnding>([
    { outcome: "cancelled", class: null, reason: "a person cancelled the task" },
    { outcome: "superseded", class: null, reason: null },
  ])("is probed again after a probe that ended $outcome: it has found nothing out", async (ending) => {
    const { clock, faults, claim, end, paused } = await pausedRepo();
    clock.advance(60_000);
    await end(await claim(), ending);
    expect(await paused()).toEqual(["repo:shop"]);
    expect(faults.nextProbeInMs()).toBe(60_000);
  });

  test("is probed again after a probe whose claim was never answered, once that has been taken back", async () => {
    const { clock, storage, faults, claim, claimNext, end } = await pausedRepo();
    clock.advance(60_000);
    await insertTaskWithJob(storage, { workItemId: "ORCH-99" });
    failNextCommit(unreachable(), { made: true });
    await expect(claimNext()).rejects.toThrow("fetch failed");
    expect(await claim()).toBe(null);
    const { underWay, pauses } = faults.snapshot();
    expect(pauses["repo:shop"]!.probedBy).toBe(underWay[0]);
    const lost = { outcome: "interrupted", class: "lost", reason: "nobody was at work on it" } as const;
    await storage.write((tx) => finishRun(tx, underWay[0]!, lost));
    await faults.idle();
    expect(faults.nextProbeInMs()).toBe(60_000);
    clock.advance(60_000);
    await end(await claimNext(), succeeded);
    expect(faults.snapshot()).toEqual({ underWay: [], pauses: {} });
  });

  test("whose agent is paused as well is probed for both again where what a probe has found cannot be written", async () => {
    const { clock, storage, faults, claim, claimNext, end, fail, paused } = await pausedRepo();
    for (let n = 0; n < 3; n++) await fail("command_not_found", { repo: "blog" });
    clock.advance(60_000);
    const probe = await claim();
    const unsubscribe = storage.onCommitted(({ ended }) => {
      if (ended.length > 0) vi.spyOn(storage, "write").mockRejectedValueOnce(new Error("no room"));
    });
    await end(probe, succeeded);
    unsubscribe();
    expect((await paused()).sort()).toEqual(["agent:analyst", "repo:shop"]);
    expect(await claim()).toBe(null);
    clock.advance(60_000);
    await end(await claimNext(), succeeded);
    expect(await paused()).toEqual([]);
    expect(faults.snapshot()).toEqual({ underWay: [], pauses: {} });
  });
});

test("whoever sets timers is told of each probe that is awaited; one that is due needs none", async () => {
  const { clock, faults, claim, end, fail } = await setup();
  const told: (number | null)[] = [];
  faults.onProbeAwaited(() => told.push(faults.nextProbeInMs()));
  for (let n = 0; n < 3; n++) await fail("git_fetch");
  clock.advance(60_001);
  expect(faults.nextProbeInMs()).toBe(null);
  expect(faults.nextProbeInMs(clock.monotonicMs() - 2)).toBe(0);
  await end(await claim(), toolError("git_fetch"));
  expect(told).toEqual([60_000, 120_000]);
});

describe("in one commit", () => {
  /** Lets whatever has been told of a commit ask for its own. */
  const askedFor = async () => {
    for (let n = 0; n < 20; n++) await Promise.resolve();
  };

  test("a probe's claim and its cancel: it has found nothing out", async () => {
    const { clock, storage, faults, rules, paused } = await pausedRepo();
    clock.advance(60_000);
    await insertTaskWithJob(storage, { workItemId: "ORCH-99" });
    const cancelled = { outcome: "cancelled", class: null, reason: "a person cancelled the task" } as const;
    const claiming = storage.write((tx) => claimJob(tx, rules));
    const cancelling = storage.write(async (tx) => {
      const [run] = await tx.query<{ id: number }>("SELECT max(id) AS id FROM agent_runs");
      expect(faults.snapshot().underWay).toEqual([]);
      return (await finishRun(tx, run!.id, cancelled)) ? run!.id : null;
    });
    expect((await claiming)!.run.id).toBe(await cancelling);
    await faults.idle();
    expect(faults.snapshot()).toMatchObject({ underWay: [], pauses: { "repo:shop": { probes: 0, probedBy: null } } });
    expect(faults.nextProbeInMs()).toBe(60_000);
    expect(await paused()).toEqual(["repo:shop"]);
  });

  test("a pause and a person's resumption: nothing is taken for paused that is not", async () => {
    const { storage, faults, claim, fail, paused } = await setup();
    await fail("git_fetch");
    await fail("git_fetch");
    const third = (await claim())!;
    await storage.write((tx) => finishRun(tx, third.run.id, toolError("git_fetch")));
    await askedFor();
    await storage.write(async (tx) => {
      expect(faults.snapshot().pauses).toEqual({});
      expect(await deletePause(tx, "repo:shop")).toBe(true);
      await tx.event("resumed", { taskId: null }, { what: "repo:shop", by: "person" });
    });
    await faults.idle();
    expect(await paused()).toEqual([]);
    expect(faults.snapshot().pauses).toEqual({});
  });

  test("a person's pause and the resumption by a probe: the pause stands, and is theirs to end", async () => {
    const { clock, storage, faults, claim, end } = await pausedRepo();
    const config = { pipeline: DEFAULT_PIPELINE, agents: {}, repos: { shop: {} as RepoConfig } };
    clock.advance(60_000);
    const probe = await claim();
    let pausing: Promise<unknown> | undefined;
    storage.onCommitted(({ ended }) => {
      // Before the probe's own, which is asked for a moment later.
      if (ended.length > 0) pausing = pauseQueue({ storage, config }, { repo: "shop", reason: "the server is moved" });
    });
    await end(probe, succeeded);
    await pausing;
    expect(await readPauses(storage)).toMatchObject([{ what: "repo:shop", reason: "the server is moved" }]);
    expect(faults.snapshot().pauses).toEqual({});
  });
});
