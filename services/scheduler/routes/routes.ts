import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import type { Hono } from "hono";
import type { SchedulerApi } from "../scheduler_api.ts";

/** What a file of routes is given. */
export interface RouteDeps {
  api: SchedulerApi;
  /** Aborted when the service stops: streams end then. */
  stopping: AbortSignal;
  /** How long an event stream is silent at most, in ms. */
  heartbeatMs: number;
}

/** A file of routes makes a small app of its own; `createSchedulerApp` puts them together. */
export type Routes = (deps: RouteDeps) => Hono<HttpEnv>;
