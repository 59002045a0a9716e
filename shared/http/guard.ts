import { createHash, timingSafeEqual } from "node:crypto";
import type { MiddlewareHandler } from "hono";
import type { HttpEnv } from "./env.ts";
import { problem } from "./problem.ts";

export interface GuardOptions {
  /** Null: no token is asked for. The service then listens on a loopback address only. */
  token: string | null;
  /** Paths that may be read without a token. */
  openPaths: readonly string[];
}

/**
 * Who may ask for what.
 *
 * Without a token the service is open to its machine, and a web page that this machine's browser shows must not get in by
 * it: a foreign `Host` (a name that was made to point at loopback) is refused, and with or without a token every request but
 * GET that another site's page makes (`Origin`).
 */
export const guard = ({ token, openPaths }: GuardOptions): MiddlewareHandler<HttpEnv> => {
  const isToken = token === null ? () => true : equalsSecret(token);
  return async function guard(c, next) {
    const host = c.req.header("host") ?? new URL(c.req.url).host;
    if (token === null && !isLoopbackHost(host)) {
      return problem(
        "forbidden_host",
        "Without a token this service answers only to localhost and loopback addresses.",
      );
    }
    const origin = c.req.header("origin");
    if (c.req.method !== "GET" && origin !== undefined && !isSameOrigin(origin, host)) {
      return problem("forbidden_origin", "Pages of another site may not send requests that change something.");
    }
    const reads = c.req.method === "GET" || c.req.method === "HEAD";
    if (token === null || (reads && openPaths.includes(c.req.path))) return next();
    const given = credential(c.req.header("authorization"));
    if (given === null || !isToken(given)) {
      return problem(
        "unauthorized",
        given === null
          ? "Send the token as Authorization: Bearer, or as the password of HTTP Basic."
          : "The token that was sent is not this service's.",
        { headers: { "www-authenticate": 'Bearer realm="orchestrator", Basic realm="orchestrator", charset="UTF-8"' } },
      );
    }
    return next();
  };
};

/** True for the names under which a machine reaches itself; the port may be another one's (a tunnel). */
export const isLoopbackHost = (host: string): boolean => {
  // Nothing but a name or address and a port, or what the URL parser makes of it is not what was said.
  const url = /^[A-Za-z0-9.:[\]-]+$/.test(host) ? parseUrl(`http://${host}`) : null;
  if (url === null) return false;
  const { hostname } = url;
  return (
    hostname === "localhost" ||
    hostname.endsWith(".localhost") ||
    hostname === "[::1]" ||
    /^127\.\d+\.\d+\.\d+$/.test(hostname)
  );
};

/** True where the page that sent the request was served by the host that it now asks. */
export const isSameOrigin = (origin: string, host: string): boolean => {
  const page = parseUrl(origin);
  if (page === null || (page.protocol !== "http:" && page.protocol !== "https:")) return false;
  // Whether a proxy in front speaks TLS cannot be seen from here: the page's scheme decides which port is implied.
  return parseUrl(`${page.protocol}//${host}`)?.host === page.host;
};

const parseUrl = (text: string): URL | null => (URL.canParse(text) ? new URL(text) : null);

/** The token in an Authorization header: a bearer token, or the password of HTTP Basic whatever the user name. */
export const credential = (header: string | undefined): string | null => {
  const match = /^(bearer|basic) +(\S+) *$/i.exec(header ?? "");
  if (match === null) return null;
  const [, scheme, value] = match as unknown as [string, string, string];
  if (scheme.toLowerCase() === "bearer") return value;
  const pair = Buffer.from(value, "base64").toString("utf8");
  const colon = pair.indexOf(":");
  return colon === -1 ? null : pair.slice(colon + 1);
};

/** Compares digests, so that neither the time taken nor the length tells how much of a guess is right. */
const equalsSecret = (secret: string): ((given: string) => boolean) => {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  const expected = digest(secret);
  return (given) => timingSafeEqual(digest(given), expected);
};
