import { once } from "node:events";
import { stat } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { countMarkers } from "@orchestrator/shared/defer.ts";
import { writeFrontmatter } from "@orchestrator/shared/frontmatter.ts";
import { readPauses } from "@orchestrator/shared/storage/read_pauses.ts";
import { describe, expect, onTestFinished, test } from "vitest";
import { callStager } from "../../../services/scheduler/staging_client.ts";
import { deferred } from "../../helpers/deferred.ts";
import { type StagingCallSeen, startFakeStager } from "../../helpers/fake_stager.ts";
import { git } from "../../helpers/git.ts";
import { makeDue, onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";
import { keepLog } from "./kept_log.ts";

const MIB = 1024 * 1024;
const REQUEST = { job_id: 1, run_id: 2, task_id: 3 };
const LIMITS = { answerMs: 300, silenceMs: 300 };
const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";
const output = (bytes: number) => ({ event: "output", name: "deploy", text: `${"x".repeat(bytes - 1)}\n` });

const ask = (url: string, over: object = {}) =>
  callStager({
    url,
    token: null,
    request: REQUEST,
    signal: new AbortController().signal,
    onEvent: () => {},
    limits: LIMITS,
    ...over,
  });

const sendStarted = (call: StagingCallSeen, commit: string): void =>
  call.send({
    event: "started",
    ...{ job_id: call.request.job_id, run_id: call.request.run_id, commit },
    ...{ branch: "work/ORCH-1", at: "2026-01-01T00:00:00.000Z" },
  });

const sendSuccess = (call: StagingCallSeen, commit: string): void => {
  const frontmatter = {
    ...{ work_item: "ORCH-1", stage: "deploy-staging", author_agent: "staging-runner", status: "completed" },
    ...{ created_at: "2026-01-01", model_used: "n/a", staging_status: "SUCCESS", run_id: call.request.run_id, commit },
  };
  const path = "docs/work-items/ORCH-1/15-staging-log.md";
  call.send({
    ...{ event: "result", verdict: "success", class: null, action: "advance", reason: "all passed", commit },
    artifact: { path, content: writeFrontmatter(frontmatter, "# Staging log\n") },
  });
};

/** Writes until the other side has gone or `limit` is reached. @returns how many bytes went out. */
const pour = async ({ response, gone }: StagingCallSeen, chunk: string, limit: number): Promise<number> => {
  let isGone = false;
  void gone.then(() => {
    isGone = true;
  });
  let bytes = 0;
  for (; bytes < limit && !isGone; bytes += chunk.length) {
    if (!response.write(chunk)) await Promise.race([once(response, "drain"), gone]);
  }
  return bytes;
};

describe("a stager that", () => {
  test("stands behind a path is asked there", async () => {
    const commit = "1".repeat(40);
    const stager = await startFakeStager((call) => {
      if (call.path === "/staging/eu/runs") sendSuccess(call, commit);
      else call.response.writeHead(404);
      call.end();
    });
    expect(await ask(`${stager.url}/staging/eu`)).toMatchObject({ kind: "result", result: { commit } });
    expect(await ask(stager.url)).toMatchObject({ kind: "refused", reason: expect.stringContaining("answered 404") });
  });

  test("takes the connection and never answers is unreachable once the limit is over", async () => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => void sockets.add(socket.on("error", () => {})));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const { port } = server.address() as { port: number };
    const answer = await ask(`http://127.0.0.1:${port}`);
    expect(answer).toMatchObject({ kind: "unreachable", reason: expect.stringContaining("silent for 300 ms") });
  });

  test("falls silent in the midst of its stream is lost, and its connection given up", async () => {
    const gone = deferred();
    const stager = await startFakeStager((call) => {
      sendStarted(call, "1".repeat(40));
      void call.gone.then(gone.resolve);
    });
    expect(await ask(stager.url)).toMatchObject({ kind: "lost", reason: expect.stringContaining("silent for 300 ms") });
    await gone.promise;
  });

  test("refuses at length, and without an end, is heard to a bounded length and in bounded time", async () => {
    const sent = deferred<number>();
    const stager = await startFakeStager(async (call) => {
      call.response.writeHead(409);
      sent.resolve(await pour(call, "no! ".repeat(16 * 1024), 200 * MIB));
    });
    const answer = await ask(stager.url);
    expect(answer).toMatchObject({ kind: "refused", reason: expect.stringContaining("answered 409: no! no!") });
    expect("reason" in answer && answer.reason.length).toBeLessThan(600);
    expect(await sent.promise).toBeLessThan(32 * MIB);
  });

  test("begins a refusal and never ends it is not waited for", async () => {
    const stager = await startFakeStager((call) => {
      call.response.writeHead(503);
      call.send("one moment");
    });
    const answer = await ask(stager.url);
    expect(answer).toMatchObject({ kind: "unreachable", reason: expect.stringMatching(/answered 503: one moment/) });
  });

  test("sends 200 MiB in one line is lost after a few, and hears no more of it", async () => {
    const sent = deferred<number>();
    const stager = await startFakeStager(async (call) => {
      sent.resolve(await pour(call, "x".repeat(64 * 1024), 200 * MIB));
    });
    expect(await ask(stager.url)).toMatchObject({ kind: "lost", reason: expect.stringContaining("a line of more") });
    expect(await sent.promise).toBeLessThan(64 * MIB);
  });

  test("writes faster than its words can be kept is made to wait, not kept in memory", async () => {
    const line = `${JSON.stringify(output(64 * 1024))}\n`;
    let sent = 0;
    const stager = await startFakeStager(async (call) => {
      sendStarted(call, "1".repeat(40));
      for (let isGone = false; !isGone && sent < 200 * MIB; sent += line.length) {
        if (call.response.write(line)) continue;
        isGone = await Promise.race([once(call.response, "drain").then(() => false), call.gone.then(() => true)]);
      }
    });
    const kept = deferred();
    const ending = new AbortController();
    const asked = ask(stager.url, { signal: ending.signal, onEvent: () => kept.promise });
    let before = -1;
    await expect
      .poll(
        () => {
          const isStill = sent > 0 && sent === before;
          before = sent;
          return isStill;
        },
        { interval: 400, timeout: 20_000 },
      )
      .toBe(true);
    expect(sent).toBeLessThan(64 * MIB);
    ending.abort(new Error("seen enough"));
    kept.resolve();
    await expect(asked).rejects.toThrow("seen enough");
  });
});

test("a stager that crashes at each run and cannot be reached between two of them pauses staging: no item uses its defers up", async () => {
  const site = await makeSite({ stagingRunnerEnabled: true });
  const commit = await git(site.remote, "rev-parse", "main");
  const crashes = [true, false, true, true];
  const stager = await startFakeStager((call) => {
    if (!crashes[stager.calls.length - 1]) return call.cut();
    sendStarted(call, commit);
    setTimeout(call.cut, 20);
  });
  const config = { stagerUrl: stager.url, ...onlyStages(site, "deploy-staging") };
  const scheduler = await startTestScheduler(site, { config });
  const { storage } = scheduler.context;
  const names = ["ORCH-1", "ORCH-2", "ORCH-3"];
  for (const workItemId of names) await postTask(scheduler, { workItemId, stage: "deploy-staging" });
  const endsOf = async () => {
    const runs = await storage.query<{ outcomeClass: string }>(
      "SELECT outcome_class FROM agent_runs WHERE outcome IS NOT NULL ORDER BY id",
    );
    return runs.map(({ outcomeClass }) => outcomeClass);
  };
  await expect.poll(endsOf, { timeout: 20_000 }).toHaveLength(3);
  await makeDue(scheduler);
  await expect.poll(() => readPauses(storage), { timeout: 20_000 }).toMatchObject([{ what: "staging" }]);
  expect((await endsOf()).slice(0, 4)).toEqual(["stager_lost", "stager_unreachable", "stager_lost", "stager_lost"]);
  const queued = await storage.query<{ taskContent: string }>("SELECT task_content FROM jobs WHERE status = 'queued'");
  expect(queued.map(({ taskContent }) => countMarkers(taskContent))).toEqual([1, 1, 1]);
});

test("200 MiB of output pass through a log of bounded size to the verdict", async () => {
  const site = await makeSite({ stagingRunnerEnabled: true });
  const stager = await startFakeStager(async (call) => {
    const commit = await git(site.remote, "rev-parse", "main");
    sendStarted(call, commit);
    await pour(call, `${JSON.stringify(output(256 * 1024))}\n`, 200 * MIB);
    sendSuccess(call, commit);
    call.end();
  });
  const config = { stagerUrl: stager.url, ...onlyStages(site, "deploy-staging") };
  const scheduler = await startTestScheduler(site, { config });
  await postTask(scheduler, { workItemId: "ORCH-1", stage: "deploy-staging" });
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  await scheduler.context.activeRuns.whenIdle();
  expect((await stat(runs[0]!.logPath!)).size).toBeLessThanOrEqual(site.config.logMaxBytes);
});

test("one that is gone, then talks nonsense, then is cut off, then is well again: nothing is lost, and the item is done", async () => {
  const site = await makeSite({ stagingRunnerEnabled: true });
  const commit = await git(site.remote, "rev-parse", "main");
  const answers: ((call: StagingCallSeen) => void)[] = [
    (call) => call.cut(),
    (call) => {
      call.send("<html>it works</html>\n");
      call.end();
    },
    (call) => {
      sendStarted(call, commit);
      setTimeout(call.cut, 50);
    },
    (call) => {
      sendSuccess(call, commit);
      call.end();
    },
  ];
  const stager = await startFakeStager((call) => answers[stager.calls.length - 1]!(call));
  const { log, said } = keepLog();
  const config = { stagerUrl: stager.url, ...onlyStages(site, "deploy-staging") };
  const scheduler = await startTestScheduler(site, { log, config });
  await postTask(scheduler, { workItemId: "ORCH-1", stage: "deploy-staging" });
  for (let n = 1; n < answers.length; n++) {
    await taskWhen(scheduler, "ORCH-1", ({ runs }) => runs.filter((run) => run.outcome !== null).length === n);
    await makeDue(scheduler);
  }
  const { task, jobs, runs, events } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task).toMatchObject({ status: "done", blockedReason: null });
  expect(runs.map((run) => [run.outcome, run.outcomeClass])).toEqual([
    ["tool_error", "stager_unreachable"],
    ["tool_error", "stager_lost"],
    ["tool_error", "stager_lost"],
    ["succeeded", null],
  ]);
  expect(jobs.map((job) => [job.status, countMarkers(job.taskContent)])).toEqual([
    ["done", 0],
    ["done", 1],
    ["done", 2],
  ]);
  expect(events.map(({ kind }) => kind).filter((kind) => /requeued|deferred/.test(kind))).toEqual([
    "requeued",
    "deferred",
    "deferred",
  ]);
  expect(said("settled").map(({ level, class: named }) => [level, named])).toEqual([
    ["warn", "stager_unreachable"],
    ["warn", "stager_lost"],
    ["warn", "stager_lost"],
    ["info", null],
  ]);
});
