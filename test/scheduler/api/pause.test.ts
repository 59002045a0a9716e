import { join } from "node:path";
import type { QueueView } from "@orchestrator/shared/schemas/queue.ts";
import { describe, expect, test } from "vitest";
import { databaseHash } from "../../helpers/database_hash.ts";
import { FakeClock } from "../../helpers/fake_clock.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { tempFolder } from "../../helpers/temp_folder.ts";
import { problemOf } from "../../shared/http/harness.ts";
import { openSite, type Site } from "./site.ts";

const pausedOf = async (answer: Response): Promise<QueueView["paused"]> => {
  expect(answer.status).toBe(200);
  return ((await answer.json()) as Pick<QueueView, "paused">).paused;
};

const pausedIn = async ({ app }: Pick<Site, "app">): Promise<string[]> =>
  (await pausedOf(await app.request("/queue"))).map(({ what }) => what);

const eventsOf = ({ storage }: Pick<Site, "storage">) =>
  storage.query<{ taskId: null; kind: string; detail: string }>(
    "SELECT task_id, kind, detail FROM task_events WHERE kind IN ('paused', 'resumed') ORDER BY id",
  );

test.each<[unknown, string[]]>([
  [undefined, ["all"]],
  [{}, ["all"]],
  [{ agent: "developer" }, ["agent:developer"]],
  [{ repo: "web" }, ["repo:web"]],
  [{ staging: true }, ["staging"]],
  [{ agent: "reviewer", repo: "shop", staging: true }, ["agent:reviewer", "repo:shop", "staging"]],
])("pausing %j pauses %j, and says so in GET /queue and in the history", async (body, whats) => {
  const clock = new FakeClock();
  const site = await openSite({ clock });
  const since = "2026-01-01T00:00:00.000Z";
  const reason = "paused by a person";
  expect(await pausedOf(await site.post("/queue/pause", body))).toEqual(whats.map((what) => ({ what, reason, since })));
  expect(await pausedIn(site)).toEqual(whats);
  const events = await eventsOf(site);
  expect(events.map(({ kind, taskId, detail }) => [kind, taskId, JSON.parse(detail)])).toEqual(
    whats.map((what) => ["paused", null, { what, reason, by: "person" }]),
  );
});

describe("what is paused is not claimed", () => {
  test.each<[unknown, boolean]>([
    [{}, false],
    [{ agent: "analyst" }, false],
    [{ repo: "shop" }, false],
    [{ agent: "developer" }, true],
    [{ repo: "web" }, true],
    [{ staging: true }, true],
  ])("a job of the analyst in shop, with %j paused: claimed %s", async (body, claimed) => {
    const site = await openSite();
    await site.create("ORCH-1");
    await site.post("/queue/pause", body);
    if (claimed) expect((await site.claim()).claim.task.workItemId).toBe("ORCH-1");
    else await expect(site.claim()).rejects.toThrow("nothing to claim");
  });

  test("a staging job is not, with staging paused", async () => {
    const site = await openSite();
    await site.create("ORCH-1", { stage: "deploy-staging" });
    await site.post("/queue/pause", { staging: true });
    await expect(site.claim()).rejects.toThrow("nothing to claim");
    await site.post("/queue/resume", { staging: true });
    expect((await site.claim()).claim.job.stage).toBe("deploy-staging");
  });

  test("running work is untouched", async () => {
    const site = await openSite();
    await site.create("ORCH-1");
    const { run } = await site.claim();
    await site.post("/queue/pause");
    expect(run.signal.aborted).toBe(false);
    expect((await site.history(1)).jobs[0]!.status).toBe("running");
  });
});

test("it survives a restart", async () => {
  const path = join(await tempFolder(), "orchestrator.db");
  const before = await openSite({ path });
  await before.post("/queue/pause", { agent: "developer", reason: "out of credit" });
  await before.storage.close();
  const after = await openSite({ path });
  expect(await pausedOf(await after.app.request("/queue"))).toMatchObject([
    { what: "agent:developer", reason: "out of credit" },
  ]);
});

test("what is paused already keeps its time; only another reason is news", async () => {
  const clock = new FakeClock();
  const site = await openSite({ clock });
  await site.post("/queue/pause", { reason: "first" });
  clock.advance(60_000);
  const before = await databaseHash(site.storage);
  await site.post("/queue/pause", { reason: "first" });
  expect(await databaseHash(site.storage)).toBe(before);
  expect(await pausedOf(await site.post("/queue/pause", { reason: "second" }))).toEqual([
    { what: "all", reason: "second", since: "2026-01-01T00:00:00.000Z" },
  ]);
  expect((await eventsOf(site)).map(({ detail }) => JSON.parse(detail).reason)).toEqual(["first", "second"]);
});

describe("resuming", () => {
  const pausedSite = async (): Promise<Site> => {
    const site = await openSite();
    await site.post("/queue/pause", { agent: "developer", repo: "shop", staging: true });
    await site.post("/queue/pause");
    return site;
  };

  test.each<[unknown, string[]]>([
    [undefined, []],
    [{}, []],
    [{ agent: "developer" }, ["all", "repo:shop", "staging"]],
    [{ repo: "shop", staging: true }, ["agent:developer", "all"]],
  ])("%j leaves %j", async (body, left) => {
    const site = await pausedSite();
    const paused = await pausedOf(await site.post("/queue/resume", body));
    expect(paused.map(({ what }) => what).sort()).toEqual(left);
    expect((await pausedIn(site)).sort()).toEqual(left);
    const resumed = (await eventsOf(site)).filter(({ kind }) => kind === "resumed");
    expect(resumed.map(({ taskId }) => taskId)).toEqual(Array.from({ length: 4 - left.length }, () => null));
  });

  test("what is not paused changes nothing", async () => {
    const site = await pausedSite();
    const before = await databaseHash(site.storage);
    expect((await site.post("/queue/resume", { agent: "reviewer" })).status).toBe(200);
    expect(await databaseHash(site.storage)).toBe(before);
  });

  test("works for an agent and a repository that the configuration has lost since", async () => {
    const site = await openSite();
    await site.storage.write(async (tx) => {
      for (const what of ["agent:gone", "repo:gone"]) {
        await tx.run("INSERT INTO queue_state VALUES (?, 'x', ?)", [what, tx.now]);
      }
    });
    expect(await pausedOf(await site.post("/queue/resume", { agent: "gone", repo: "gone" }))).toEqual([]);
  });

  test("says that the queue has moved, which wakes the dispatcher; pausing does not", async () => {
    const site = await openSite();
    const moved: boolean[] = [];
    site.storage.onCommitted(({ queueMoved }) => moved.push(queueMoved));
    await site.post("/queue/pause", { agent: "analyst" });
    await site.post("/queue/resume", { agent: "developer" });
    await site.post("/queue/resume");
    expect(moved).toEqual([false, false, true]);
  });

  test("lets the dispatcher claim", async () => {
    const scheduler = await startTestScheduler(await makeSite());
    await scheduler.api.pauseQueue({});
    await postTask(scheduler, { workItemId: "ORCH-1" });
    await scheduler.api.resumeQueue({});
    const { events } = await taskWhen(scheduler, "ORCH-1", (task) => task.runs.length > 0);
    expect(events.map(({ kind }) => kind).slice(0, 2)).toEqual(["created", "claimed"]);
    expect((await scheduler.api.cancelTask({ id: 1 }, {})).kind).toBe("ok");
  });
});

describe.each(["/queue/pause", "/queue/resume"])("%s", (path) => {
  test("names every agent and repository that the configuration does not know", async () => {
    const site = await openSite({ config: { agents: { default: {} as never, porter: {} as never } } });
    const before = await databaseHash(site.storage);
    expect(await problemOf(await site.post(path, { agent: "default", repo: "shopp", staging: true }))).toMatchObject({
      status: 422,
      code: "invalid_input",
      errors: [
        {
          path: "agent",
          message:
            "must be an agent of the configuration: analyst, architect, developer, reviewer, tester, deployer, porter",
        },
        { path: "repo", message: "must be a repository of the configuration: shop, web" },
      ],
    });
    expect(await databaseHash(site.storage)).toBe(before);
  });
});
