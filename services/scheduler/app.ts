import { setMaxListeners } from "node:events";
import type { Clock } from "@orchestrator/shared/clock.ts";
import type { Config } from "@orchestrator/shared/config/config.ts";
import { createBaseApp } from "@orchestrator/shared/http/base_app.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { OPEN_PATHS } from "@orchestrator/shared/http/health.ts";
import { openapiRoute } from "@orchestrator/shared/http/openapi_route.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import type { Hono } from "hono";
import type { FirstStart } from "./first_start.ts";
import { eventRoutes } from "./routes/events.ts";
import { healthRoutes } from "./routes/health.ts";
import { jobRoutes } from "./routes/jobs.ts";
import { queueRoutes } from "./routes/queue.ts";
import type { Routes } from "./routes/routes.ts";
import { runRoutes } from "./routes/runs.ts";
import { taskActionRoutes } from "./routes/task_actions.ts";
import { taskRoutes } from "./routes/tasks.ts";
import type { SchedulerApi } from "./scheduler_api.ts";

/** Every file of routes; a new one is a line here. */
const ROUTES: readonly Routes[] = [
  taskRoutes,
  taskActionRoutes,
  jobRoutes,
  runRoutes,
  queueRoutes,
  eventRoutes,
  healthRoutes,
];

/** Proxies and firewalls forget a connection on which nothing is said for about a minute. */
const HEARTBEAT_MS = 15_000;

export interface SchedulerAppOptions {
  api: SchedulerApi;
  config: Pick<Config, "apiToken">;
  log: Log;
  clock: Clock;
  /** Aborted when the service stops, before its server is closed: streams end then. */
  stopping: AbortSignal;
  /** How long an event stream is silent at most, in ms. Default 15 s. */
  heartbeatMs?: number;
  /** What `GET /` says where nothing is configured yet. */
  firstStart?: FirstStart | null;
}

/** The scheduler's HTTP API as a web-standard app: serve its `fetch`. */
export const createSchedulerApp = ({
  api,
  config,
  log,
  clock,
  stopping,
  heartbeatMs = HEARTBEAT_MS,
  firstStart = null,
}: SchedulerAppOptions): Hono<HttpEnv> => {
  // Each open stream listens for the end, and there may be any number of them.
  setMaxListeners(0, stopping);
  // Whoever has just started it for the first time has not seen the token yet, and the page tells nothing of any work.
  const openPaths = firstStart === null ? OPEN_PATHS : [...OPEN_PATHS, "/"];
  const app = createBaseApp({ log, clock, guard: { token: config.apiToken, openPaths } });
  if (firstStart !== null) app.get("/", async (c) => c.html(await firstStart.page()));
  for (const routes of ROUTES) app.route("/", routes({ api, stopping, heartbeatMs }));
  const document = {
    app,
    title: "Orchestrator: scheduler",
    description: "Takes work items through a delivery pipeline. Errors are RFC 9457 problems with a `code`.",
    securitySchemes: config.apiToken === null ? {} : TOKEN_SCHEMES,
  };
  app.route("/", openapiRoute(document));
  return app;
};

const TOKEN_SCHEMES = {
  bearer: { type: "http", scheme: "bearer" },
  basic: { type: "http", scheme: "basic", description: "The token as the password; any user name." },
} as const;
