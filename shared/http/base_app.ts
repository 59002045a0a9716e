import { Hono } from "hono";
import { METHODS } from "hono/router";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { HttpEnv } from "./env.ts";
import { type GuardOptions, guard } from "./guard.ts";
import { problem } from "./problem.ts";
import { requestContext } from "./request_context.ts";
import { unavailable } from "./unavailable.ts";

export interface BaseAppOptions {
  log: Log;
  clock: Clock;
  guard: GuardOptions;
}

/**
 * An app that has no routes yet, with what both services share: request ids, the guard, and problem+json for a path that is
 * not there (404), a method that a path does not have (405), what cannot be answered now (503), and any other exception (500, of
 * which only the log says more).
 */
export const createBaseApp = ({ log, clock, guard: guardOptions }: BaseAppOptions): Hono<HttpEnv> => {
  const app = new Hono<HttpEnv>();
  app.use(requestContext({ log, clock }), guard(guardOptions));

  app.notFound((c) => {
    const allowed = allowedMethods(app, c.req.path);
    if (allowed.length === 0) return problem("not_found", "There is nothing at this path.");
    const allow = allowed.join(", ");
    return problem("method_not_allowed", `This path answers to ${allow}.`, { headers: { allow } });
  });

  app.onError((error, c) => {
    const passing = unavailable(error);
    if (passing !== null) {
      c.var.log.warn({ err: error, method: c.req.method, path: c.req.path }, "request could not be answered now");
      return problem(passing.code, passing.detail, { headers: { "retry-after": RETRY_AFTER_S } });
    }
    c.var.log.error({ err: error, method: c.req.method, path: c.req.path }, "request failed");
    return problem("internal", `The request failed inside the service. Its log has more under ${c.var.requestId}.`);
  });

  return app;
};

const RETRY_AFTER_S = "5";

/** The methods for which a route, and not only middleware (registered for all methods), stands at the path. */
const allowedMethods = (app: Hono<HttpEnv>, path: string): string[] => {
  const own = METHODS.map((method) => method.toUpperCase()).filter((method) =>
    app.router.match(method, path)[0].some(([[, route]]) => route.method === method),
  );
  return own.includes("GET") ? [...own, "HEAD"] : own;
};
