import { jsonAnswer, OPEN } from "@orchestrator/shared/http/document.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { queueSchema } from "@orchestrator/shared/schemas/queue.ts";
import { Hono } from "hono";
import { describeRoute } from "hono-openapi";
import type { Routes } from "./routes.ts";

export const queueRoutes: Routes = ({ api }) =>
  new Hono<HttpEnv>().get(
    "/queue",
    describeRoute({
      summary: "What is queued, running and paused, and the counters of the reaper and the staging runner",
      ...OPEN,
      responses: { 200: jsonAnswer("The state of this moment.", queueSchema) },
    }),
    async (c) => c.json(await api.queueView()),
  );
