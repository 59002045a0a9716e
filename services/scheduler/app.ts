import type { Clock } from "@orchestrator/shared/clock.ts";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { createBaseApp } from "@orchestrator/shared/http/base_app.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import type { Hono } from "hono";
import { healthRoutes } from "./routes/health.ts";
import { openapiRoutes } from "./routes/openapi.ts";
import { queueRoutes } from "./routes/queue.ts";
import type { Routes } from "./routes/routes.ts";
import { taskRoutes } from "./routes/tasks.ts";
import type { SchedulerApi } from "./scheduler_api.ts";

/** Every file of routes; a new one is a line here. */
const ROUTES: readonly Routes[] = [taskRoutes, queueRoutes, healthRoutes];

/** What probes and monitors read without a token. */
const OPEN_PATHS = ["/queue", "/healthz", "/readyz"];

export interface SchedulerAppOptions {
  api: SchedulerApi;
  config: Pick<Config, "apiToken">;
  log: Log;
  clock: Clock;
}

/** The scheduler's HTTP API as a web-standard app: serve its `fetch`. */
export const createSchedulerApp = ({ api, config, log, clock }: SchedulerAppOptions): Hono<HttpEnv> => {
  const app = createBaseApp({ log, clock, guard: { token: config.apiToken, openPaths: OPEN_PATHS } });
  for (const routes of ROUTES) app.route("/", routes({ api }));
  app.route("/", openapiRoutes({ app, secured: config.apiToken !== null }));
  return app;
};
