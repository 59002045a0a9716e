import { toSnake } from "@orchestrator/shared/case.ts";
import { JOB_STATUSES } from "@orchestrator/shared/domain.ts";
import { cursorParam, encodeCursor } from "@orchestrator/shared/http/cursor.ts";
import { jsonAnswer, problemAnswers } from "@orchestrator/shared/http/document.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { problem } from "@orchestrator/shared/http/problem.ts";
import { queryParams, wholeNumber, wholeNumberParam } from "@orchestrator/shared/http/query_params.ts";
import { Hono } from "hono";
import { describeRoute } from "hono-openapi";
import * as v from "valibot";
import { job, nextCursor, run } from "./documented.ts";
import { exampleCursor, exampleJob, exampleRun } from "./examples.ts";
import { idParam, rowId } from "./path_params.ts";
import type { Routes } from "./routes.ts";

const jobList = v.object({ jobs: v.array(job), next_cursor: nextCursor });
const jobWithRuns = v.pipe(v.object({ ...job.entries, runs: v.array(run) }), v.metadata({ ref: "JobWithRuns" }));

const listQuery = v.strictObject({
  status: v.exactOptional(v.picklist(JOB_STATUSES)),
  task_id: v.exactOptional(wholeNumber({ min: 1, max: 999_999_999_999_999 })),
  limit: wholeNumberParam({ min: 1, max: 200, absent: 50 }),
  cursor: v.exactOptional(cursorParam),
});

export const jobRoutes: Routes = ({ api }) =>
  new Hono<HttpEnv>()
    .get(
      "/jobs",
      describeRoute({
        summary: "The jobs, newest first, page by page",
        responses: {
          200: jsonAnswer("A page; `next_cursor` is null on the last one.", jobList, {
            jobs: [exampleJob],
            next_cursor: exampleCursor,
          }),
          ...problemAnswers("invalid_input"),
        },
      }),
      queryParams(listQuery),
      async (c) => {
        const { jobs, nextCursor } = await api.listJobs(c.req.valid("query"));
        return c.json({ jobs: jobs.map(toSnake), next_cursor: nextCursor === null ? null : encodeCursor(nextCursor) });
      },
    )
    .get(
      "/jobs/:id",
      describeRoute({
        summary: "One job with its runs",
        parameters: idParam("The job's id.", exampleJob.id),
        responses: {
          200: jsonAnswer("The job and its runs, oldest first.", jobWithRuns, { ...exampleJob, runs: [exampleRun] }),
          ...problemAnswers("not_found"),
        },
      }),
      async (c) => {
        const id = rowId(c.req.param("id"));
        const found = id === null ? null : await api.findJob(id);
        if (found === null) return problem("not_found", "There is no job with this id.");
        return c.json({ ...toSnake(found.job), runs: found.runs.map(toSnake) });
      },
    );
