import { expect, test } from "vitest";
import { makeStager } from "../stager/harness.ts";
import { movedSeries, promtoolFindings, seriesOf } from "./prometheus.ts";

const textOf = async ({ app }: Awaited<ReturnType<typeof makeStager>>): Promise<string> =>
  (await app.request("/queue?format=prometheus")).text();

const PLAN = `version: 1
steps:
  - { name: test, run: 'test "$ORCH_RUN_ID" != 10' }
`;

test("a stager that has done nothing yet shows all that there will be, at 0", async () => {
  const text = await textOf(await makeStager());
  const series = seriesOf(text);
  const zero = [
    "stager_runs_total",
    ...["success", "failed", "tool_error", "deferred"].map((outcome) => `stager_outcomes_total{outcome="${outcome}"}`),
    "stager_active_runs",
  ];
  expect(zero.filter((name) => series[name] !== 0)).toEqual([]);
  expect(await promtoolFindings(text)).toBe("");
});

test("its runs are counted by what they came to, and shown while they are at work", async () => {
  const stager = await makeStager({ plan: PLAN });
  await stager.run(9);
  await stager.run(10);
  stager.job.jobRunId = 11;
  const hanging = await stager.post({ job_id: 7, run_id: 11, task_id: 3 });
  const during = await textOf(stager);
  expect(movedSeries(during, "stager_")).toEqual({
    stager_runs_total: 3,
    'stager_outcomes_total{outcome="success"}': 1,
    'stager_outcomes_total{outcome="failed"}': 1,
    stager_active_runs: 1,
  });
  expect(during).not.toMatch(/ORCH-115|Ship it/);
  await hanging.text();
  expect(seriesOf(await textOf(stager))).toMatchObject({ stager_active_runs: 0 });
  expect(await promtoolFindings(during)).toBe("");
});
