import { type Clock, isoTime } from "@orchestrator/shared/clock.ts";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { createBaseApp } from "@orchestrator/shared/http/base_app.ts";
import { BODY_PROBLEMS, OPEN, problemAnswers } from "@orchestrator/shared/http/document.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { healthRoutes, OPEN_PATHS } from "@orchestrator/shared/http/health.ts";
import { jsonBody } from "@orchestrator/shared/http/json_body.ts";
import { openapiRoute } from "@orchestrator/shared/http/openapi_route.ts";
import { problem } from "@orchestrator/shared/http/problem.ts";
import { queryParams } from "@orchestrator/shared/http/query_params.ts";
import {
  prometheusAnswer,
  queueAnswer,
  queueQuerySchema,
  wantsPrometheus,
} from "@orchestrator/shared/http/queue_format.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import { stagingCountersSchema } from "@orchestrator/shared/schemas/queue.ts";
import {
  type StagingEvent,
  stagingEventSchema,
  stagingRunRequestSchema,
} from "@orchestrator/shared/schemas/staging_run.ts";
import { id, time } from "@orchestrator/shared/schemas/text.ts";
import type { Hono } from "hono";
import { describeRoute, resolver } from "hono-openapi";
import * as v from "valibot";
import type { ActiveRuns } from "./active_runs.ts";
import type { RunCounters } from "./counters.ts";
import { createStagerMetrics } from "./metrics.ts";
import { type ReadJob, whyNotThisRun } from "./staging_job.ts";

export interface StagerAppDeps {
  config: Pick<Config, "stagerToken">;
  clock: Clock;
  log: Log;
  runs: ActiveRuns;
  counters: RunCounters;
  readJob: ReadJob;
  /** The id of the database that the stager works for; null before the scheduler's first start. */
  readInstanceId: () => Promise<string | null>;
  /** Why no run can be taken now; empty when one can. */
  readiness: () => Promise<string[]>;
}

const activeRunSchema = v.object({
  job_id: id,
  run_id: id,
  task_id: id,
  work_item_id: v.string(),
  step: v.nullable(v.string()),
  started_at: time,
});
const queueSchema = v.object({
  time,
  staging_runner: stagingCountersSchema,
  active: v.array(activeRunSchema),
});
const QUEUE_EXAMPLE: v.InferOutput<typeof queueSchema> = {
  time: "2030-01-02T03:04:05.000Z",
  staging_runner: { runs: 3, success: 1, failed: 1, tool_error: 0, deferred: 0 },
  active: [
    {
      job_id: 7,
      run_id: 9,
      task_id: 3,
      work_item_id: "ORCH-115",
      step: "build",
      started_at: "2030-01-02T03:04:00.000Z",
    },
  ],
};
const EVENT_EXAMPLE: StagingEvent = { event: "step", name: "build", state: "passed", exit_code: 0, duration_ms: 812 };
const METRICS_EXAMPLE = 'stager_runs_total 3\nstager_outcomes_total{outcome="success"} 1\nstager_active_runs 1\n';

/** The stager's HTTP API as a web-standard app: serve its `fetch`. */
export const createStagerApp = (deps: StagerAppDeps): Hono<HttpEnv> => {
  const { config, clock, log, runs, counters, readJob, readInstanceId, readiness } = deps;
  const app = createBaseApp({ log, clock, guard: { token: config.stagerToken, openPaths: OPEN_PATHS } });

  app.post(
    "/runs",
    describeRoute({
      summary: "Run a staging job; the open connection is the run",
      responses: {
        200: {
          description: "One JSON object a line, the last one the `result`.",
          content: { "application/x-ndjson": { schema: resolver(stagingEventSchema), example: EVENT_EXAMPLE } },
        },
        ...problemAnswers(...BODY_PROBLEMS, "not_a_staging_job", "invalid_state", "unavailable"),
      },
    }),
    jsonBody(stagingRunRequestSchema, { example: { job_id: 7, run_id: 9, task_id: 3 } }),
    async (c) => {
      const request = c.req.valid("json");
      // Without the database nobody can tell whether this is a staging job, so no run has begun.
      const [instanceId, job] = await Promise.all([readInstanceId(), readJob(request)]).catch((error: unknown) => {
        c.var.log.warn({ err: error, ...request }, "the database cannot be read");
        return [null, null] as const;
      });
      if (instanceId === null) {
        return problem("unavailable", "The database cannot be read, or the scheduler has not made it yet. Try again.");
      }
      const why = whyNotThisRun(job, request);
      if (job === null || why !== null) return problem("not_a_staging_job", `${why}.`);
      if (runs.stopping) return problem("unavailable", "This stager is stopping.");
      if (runs.has(request.run_id)) {
        return problem("invalid_state", `Run ${request.run_id} is being worked already, for another connection.`);
      }
      return new Response(runs.start(request, job, instanceId), {
        headers: { "content-type": "application/x-ndjson", "cache-control": "no-store" },
      });
    },
  );

  const metricsText = createStagerMetrics();
  app.get(
    "/queue",
    describeRoute({
      summary: "What this stager runs now, and what it has run since it started",
      ...OPEN,
      responses: {
        200: queueAnswer(queueSchema, { json: QUEUE_EXAMPLE, text: METRICS_EXAMPLE }),
        ...problemAnswers("invalid_input"),
      },
    }),
    queryParams(queueQuerySchema),
    async (c) => {
      const seen = { staging_runner: counters.read(), active: runs.list() };
      if (wantsPrometheus(c, c.req.valid("query"))) return prometheusAnswer(await metricsText(seen));
      return c.json({ time: isoTime(clock.now()), ...seen }, 200, { vary: "accept" });
    },
  );

  app.route(
    "/",
    healthRoutes({
      question: "Can the database be read and the scratch directory be written?",
      exampleReason: "the scheduler has not started with this database yet",
      reasons: readiness,
    }),
  );

  const securitySchemes = config.stagerToken === null ? {} : { bearer: { type: "http", scheme: "bearer" } as const };
  const description = "Runs staging plans and judges them. Errors are RFC 9457 problems with a `code`.";
  app.route("/", openapiRoute({ app, title: "Orchestrator: stager", description, securitySchemes }));

  return app;
};
