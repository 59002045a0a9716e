import { toSnake } from "@orchestrator/shared/case.ts";
import { jsonAnswer, problemAnswers, textAnswer } from "@orchestrator/shared/http/document.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { problem } from "@orchestrator/shared/http/problem.ts";
import { pulledBody } from "@orchestrator/shared/http/pulled_body.ts";
import { flagParam, queryParams, wholeNumber } from "@orchestrator/shared/http/query_params.ts";
import { Hono } from "hono";
import { describeRoute } from "hono-openapi";
import * as v from "valibot";
import { run } from "./documented.ts";
import { exampleRun } from "./examples.ts";
import { idParam, rowId } from "./path_params.ts";
import type { Routes } from "./routes.ts";

const logQuery = v.strictObject({
  tail: v.exactOptional(
    v.pipe(wholeNumber({ min: 0, max: 999_999_999_999_999 }), v.description("Only the last so many bytes.")),
  ),
  follow: v.pipe(flagParam, v.description("Goes on until the run has ended.")),
});

const RUN_PARAM = idParam("The run's id.", exampleRun.id);

export const runRoutes: Routes = ({ api, stopping }) =>
  new Hono<HttpEnv>()
    .get(
      "/runs/:id",
      describeRoute({
        summary: "One attempt at a job",
        parameters: RUN_PARAM,
        responses: { 200: jsonAnswer("The run.", run, exampleRun), ...problemAnswers("not_found") },
      }),
      async (c) => {
        const id = rowId(c.req.param("id"));
        const found = id === null ? null : await api.findRun(id);
        return found === null ? noSuchRun() : c.json(toSnake(found));
      },
    )
    .get(
      "/runs/:id/log",
      describeRoute({
        summary: "What a run has written, from its beginning or only the end; followed until the run has ended",
        parameters: RUN_PARAM,
        responses: {
          200: textAnswer("The bytes as the agent or the stager wrote them.", "text/plain", "reading the diff …\n"),
          ...problemAnswers("not_found", "invalid_input"),
        },
      }),
      queryParams(logQuery),
      async (c) => {
        const id = rowId(c.req.param("id"));
        const found = id === null ? { kind: "no_run" as const } : await api.openLog(id, c.req.valid("query"));
        switch (found.kind) {
          case "no_run":
            return noSuchRun();
          case "no_log":
            return problem("not_found", "This run has no log: it ended before it began one, or the log was removed.");
          case "log": {
            const onError = (error: unknown) => c.var.log.error({ err: error, run_id: id }, "a log could not be read");
            return c.body(pulledBody(found.read, { stopping, onError }), 200, {
              "content-type": "text/plain; charset=utf-8",
            });
          }
        }
      },
    );

const noSuchRun = (): Response => problem("not_found", "There is no run with this id.");
