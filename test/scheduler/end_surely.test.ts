import type { EndResult } from "@orchestrator/shared/process/end_processes.ts";
import { expect, test } from "vitest";
import { endSurely } from "../../services/scheduler/end_surely.ts";
import { keepLog } from "./faults/kept_log.ts";

const PID = 4711;
const GONE: EndResult = { ended: 1, survivors: [] };
const STUCK: EndResult = { ended: 0, survivors: [PID] };
const hold = { jobId: 1, taskId: 2, runId: 3 };
const noFiles = Object.assign(new Error("EMFILE: too many open files, scandir '/proc'"), { code: "EMFILE" });

/** An agent whose endings come to this, one after the other. */
const agentOf = (...ends: (EndResult | Error)[]) => ({
  pid: PID,
  graces: [] as number[],
  async end(graceMs: number): Promise<EndResult> {
    this.graces.push(graceMs);
    const end = ends.shift();
    if (end === undefined || end instanceof Error) throw end;
    return end;
  },
});

const endIt = (agent: ReturnType<typeof agentOf>, signal = new AbortController().signal) => {
  const { log, lines } = keepLog();
  return { ending: endSurely(agent, { graceMs: 7, log, hold, signal }), lines };
};

test("what fails is said and tried again, until the agent is gone", async () => {
  const agent = agentOf(noFiles, STUCK, GONE);
  const { ending, lines } = endIt(agent);
  expect(await ending).toEqual(GONE);
  expect(agent.graces).toEqual([7, 7, 7]);
  const each = { level: "error", run_id: 3, job_id: 1, msg: "an agent could not be ended; trying again" };
  expect(lines).toMatchObject([
    { ...each, tries: 1, retry_in_ms: 200, err: { code: "EMFILE" } },
    { ...each, tries: 2, retry_in_ms: 400, err: { message: expect.stringContaining(`process ${PID}`) } },
  ]);
});

test("others that outlive their agent are its caller's to tell of", async () => {
  const others = { ended: 1, survivors: [PID + 1] };
  const { ending, lines } = endIt(agentOf(others));
  expect(await ending).toEqual(others);
  expect(lines).toEqual([]);
});

test("nothing is tried again once that is no longer wanted", async () => {
  const agent = agentOf(noFiles);
  const stop = new AbortController();
  const { ending, lines } = endIt(agent, stop.signal);
  await expect.poll(() => lines.length).toBe(1);
  stop.abort();
  await expect(ending).rejects.toThrow();
  expect(agent.graces).toEqual([7]);

  const { ending: another, lines: silent } = endIt(agentOf(noFiles), stop.signal);
  await expect(another).rejects.toBe(stop.signal.reason);
  expect(silent).toEqual([]);
});
