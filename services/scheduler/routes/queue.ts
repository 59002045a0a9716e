import { BODY_PROBLEMS, jsonAnswer, OPEN, problemAnswers } from "@orchestrator/shared/http/document.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { jsonBody } from "@orchestrator/shared/http/json_body.ts";
import { invalidInput } from "@orchestrator/shared/http/problem.ts";
import { queryParams } from "@orchestrator/shared/http/query_params.ts";
import {
  prometheusAnswer,
  queueAnswer,
  queueQuerySchema,
  wantsPrometheus,
} from "@orchestrator/shared/http/queue_format.ts";
import { pauseTargetSchema } from "@orchestrator/shared/schemas/actions.ts";
import { pauseSchema, queueSchema } from "@orchestrator/shared/schemas/queue.ts";
import { type Context, Hono } from "hono";
import { describeRoute } from "hono-openapi";
import * as v from "valibot";
import type { PauseResult } from "../pause_queue.ts";
import { exampleMetrics, examplePaused, exampleQueue } from "./examples.ts";
import type { Routes } from "./routes.ts";

const pausedSchema = v.object({ paused: v.array(pauseSchema) });

export const queueRoutes: Routes = ({ api }) =>
  new Hono<HttpEnv>()
    .get(
      "/queue",
      describeRoute({
        summary: "What is queued, running and paused, and the counters of the reaper and the staging runner",
        ...OPEN,
        responses: {
          200: queueAnswer(queueSchema, { json: exampleQueue, text: exampleMetrics }),
          ...problemAnswers("invalid_input"),
        },
      }),
      queryParams(queueQuerySchema),
      async (c) => {
        if (wantsPrometheus(c, c.req.valid("query"))) return prometheusAnswer(await api.queueText());
        return c.json(await api.queueView(), 200, { vary: "accept" });
      },
    )
    .post(
      "/queue/pause",
      describeRoute({
        summary: "Stop claiming: everything, or what is named",
        description: "Work that runs goes on. A pause holds until it is resumed, across restarts.",
        responses: {
          200: jsonAnswer("What is paused now.", pausedSchema, { paused: examplePaused }),
          ...problemAnswers(...BODY_PROBLEMS),
        },
      }),
      jsonBody(pauseTargetSchema, {
        optional: true,
        example: { agent: "developer", reason: "out of credit until Monday" },
      }),
      async (c) => answer(await api.pauseQueue(c.req.valid("json")), c),
    )
    .post(
      "/queue/resume",
      describeRoute({
        summary: "Go on claiming: everything that is paused, or what is named",
        responses: {
          200: jsonAnswer("What is paused still.", pausedSchema, { paused: [] }),
          ...problemAnswers(...BODY_PROBLEMS),
        },
      }),
      jsonBody(pauseTargetSchema, { optional: true, example: { agent: "developer" } }),
      async (c) => answer(await api.resumeQueue(c.req.valid("json")), c),
    );

const answer = (result: PauseResult, c: Context<HttpEnv>): Response =>
  result.kind === "invalid" ? invalidInput(result.errors) : c.json({ paused: result.paused });
