import { randomUUID } from "node:crypto";
import type { MiddlewareHandler } from "hono";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { HttpEnv } from "./env.ts";

const GIVEN_ID = /^[A-Za-z0-9._-]{1,64}$/;

/**
 * Gives every request an id (the caller's `X-Request-Id`, where it is a short plain word, else a new one): in the answer's
 * header, in the log lines of the request, and in the line that says how it ended. Reads that went well are logged at debug
 * level, since probes and dashboards ask all day.
 */
export const requestContext = ({ log, clock }: { log: Log; clock: Clock }): MiddlewareHandler<HttpEnv> =>
  async function requestContext(c, next) {
    const given = c.req.header("x-request-id");
    const requestId = given !== undefined && GIVEN_ID.test(given) ? given : randomUUID();
    const requestLog = log.child({ request_id: requestId });
    c.set("requestId", requestId);
    c.set("log", requestLog);
    const startedMs = clock.monotonicMs();

    await next();

    // Not by `c.header`, which makes the response anew for each.
    const { headers } = c.res;
    headers.set("x-request-id", requestId);
    headers.set("x-content-type-options", "nosniff");
    // A page that shows this one in a frame could make its reader click what it wants.
    headers.set("x-frame-options", "DENY");
    if (!headers.has("cache-control")) headers.set("cache-control", "no-store");
    const { status } = c.res;
    const quiet = (c.req.method === "GET" || c.req.method === "HEAD") && status < 400;
    requestLog[status >= 500 ? "warn" : quiet ? "debug" : "info"](
      { method: c.req.method, path: c.req.path, status, duration_ms: Math.round(clock.monotonicMs() - startedMs) },
      "request",
    );
  };
