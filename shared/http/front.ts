import type { Hono } from "hono";
import { type BaseAppOptions, createBaseApp } from "./base_app.ts";
import type { HttpEnv } from "./env.ts";
import { healthRoutes, OPEN_PATHS } from "./health.ts";
import { problem } from "./problem.ts";

/** What a service listens with from its start on. */
export interface Front {
  fetch: (request: Request) => Response | Promise<Response>;
  /** From here on the app answers. */
  open(app: Pick<Hono<HttpEnv>, "fetch">): void;
}

export interface FrontOptions extends Omit<BaseAppOptions, "guard"> {
  /** The service, as people know it, for example `scheduler`. */
  what: string;
  /** Null: none is asked for. */
  token: string | null;
}

/**
 * Listening comes first, so that a port that is taken is found out before anything is started. Who asks meanwhile is told
 * that the service is alive and not ready; what it cannot do yet is answered 503.
 */
export const createFront = ({ what, token, ...options }: FrontOptions): Front => {
  // What is read without a token of a service that runs, is answered without one before as well.
  const starting = createBaseApp({ ...options, guard: { token, openPaths: OPEN_PATHS } });
  const reason = `the ${what} is starting`;
  const question = `Can the ${what} do its work?`;
  starting.route("/", healthRoutes({ question, exampleReason: reason, reasons: async () => [reason] }));
  starting.all("*", () => problem("unavailable", `Nothing can be answered yet: ${reason}.`));
  let answering: Pick<Hono<HttpEnv>, "fetch"> = starting;
  return {
    fetch: (request) => answering.fetch(request),
    open: (app) => {
      answering = app;
    },
  };
};
