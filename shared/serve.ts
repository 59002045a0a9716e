import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { constants } from "node:os";
import { getRequestListener } from "@hono/node-server";
import { problem } from "./http/problem.ts";

/**
 * All that is particular to a runtime: listening and signals. Everything else is a web-standard `fetch` handler.
 */

export interface ServeOptions {
  fetch: (request: Request) => Response | Promise<Response>;
  /** Address or name to listen on, for example `127.0.0.1`. */
  host: string;
  /** 0 takes a free port. */
  port: number;
  /** Told of what went wrong outside a handler: an exception that `fetch` let through, a failing socket. */
  onError: (error: unknown) => void;
}

export interface RunningServer {
  /** The port that is listened on. */
  port: number;
  /**
   * Stops listening, closes idle connections at once and waits for the requests in flight, at most `graceMs` (default
   * 5,000). Streams that would never end are ended by whoever writes them; what is still open after the grace is cut off
   * (on Deno: with the end of the process, which must then be an explicit one).
   */
  close(graceMs?: number): Promise<void>;
}

export type ListenErrorCode = "address_in_use" | "address_not_available" | "permission_denied" | "listen_failed";

/** The address could not be listened on; `code` says why, the same on every runtime. */
export class ListenError extends Error {
  readonly code: ListenErrorCode;

  constructor(code: ListenErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ListenError";
    this.code = code;
  }
}

const DEFAULT_GRACE_MS = 5_000;

/**
 * Listens and answers with `fetch`.
 * @throws {ListenError} where the address cannot be listened on
 */
export const serve = async (options: ServeOptions): Promise<RunningServer> => {
  const { onError } = options;
  const guarded: ServeOptions = {
    ...options,
    // The runtimes differ in what they do with a handler that throws; here nobody finds out.
    fetch: async (request) => {
      try {
        return await options.fetch(request);
      } catch (error) {
        onError(error);
        return problem("internal", "The request failed inside the service.");
      }
    },
  };
  try {
    return await (deno === undefined ? serveOnNode(guarded) : serveOnDeno(deno, guarded));
  } catch (cause) {
    throw listenError(cause, options);
  }
};

const serveOnNode = async ({ fetch, host, port, onError }: ServeOptions): Promise<RunningServer> => {
  const server = createServer(
    getRequestListener(fetch, {
      // Its own Response keeps text as text until it is written; the runtime's puts a stream around each.
      overrideGlobalObjects: true,
      // What reaches this was never a request: a target or a Host from which no URL can be made.
      errorHandler: () => problem("bad_request", "The request's target or its Host cannot be read."),
    }),
  );
  // Requests in flight, by connection. Node's own closeIdleConnections() does not see a connection that has not asked for
  // anything yet, and one that becomes idle later would hold the close for its keep-alive time.
  const inFlight = new Map<Socket, number>();
  let closing = false;
  const settle = (socket: Socket, change: 1 | -1): void => {
    const requests = (inFlight.get(socket) ?? 0) + change;
    if (inFlight.has(socket)) inFlight.set(socket, requests);
    if (closing && requests === 0) socket.destroySoon();
  };
  server.on("connection", (socket) => {
    inFlight.set(socket, 0);
    socket.once("close", () => inFlight.delete(socket));
  });
  server.on("request", (request, response) => {
    settle(request.socket, 1);
    response.once("close", () => settle(request.socket, -1));
  });

  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      server.on("error", onError);
      resolve();
    });
  });

  let closed: Promise<void> | undefined;
  return {
    port: (server.address() as AddressInfo).port,
    close: (graceMs = DEFAULT_GRACE_MS) => {
      closed ??= new Promise((resolve) => {
        closing = true;
        const cutOff = setTimeout(() => server.closeAllConnections(), graceMs);
        server.close(() => {
          clearTimeout(cutOff);
          resolve();
        });
        for (const [socket, requests] of inFlight) if (requests === 0) socket.destroy();
      });
      return closed;
    },
  };
};

/** The part of Deno that is used here; the project is typed for Node. */
interface DenoRuntime {
  serve(
    options: {
      hostname: string;
      port: number;
      onListen: () => void;
      onError: (error: unknown) => Response;
    },
    handler: (request: Request) => Response | Promise<Response>,
  ): { addr: { port: number }; shutdown(): Promise<void> };
}

const deno = (globalThis as { Deno?: DenoRuntime }).Deno;

const serveOnDeno = (runtime: DenoRuntime, { fetch, host, port, onError }: ServeOptions): RunningServer => {
  const server = runtime.serve(
    {
      hostname: host,
      port,
      // Without it Deno writes a line of its own to standard output, which holds JSON lines only.
      onListen: () => {},
      onError: (error) => {
        onError(error);
        return problem("internal", "The request failed inside the service.");
      },
    },
    fetch,
  );
  let closed: Promise<void> | undefined;
  return {
    port: server.addr.port,
    close: (graceMs = DEFAULT_GRACE_MS) => {
      // Deno has no way to cut connections off once a shutdown has begun.
      closed ??= Promise.race([server.shutdown(), after(graceMs)]);
      return closed;
    },
  };
};

/** Does not keep the process alive. */
const after = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });

const listenError = (cause: unknown, { host, port }: ServeOptions): ListenError => {
  const { code, message } = cause as { code?: unknown; message?: unknown };
  const at = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  switch (code) {
    case "EADDRINUSE":
      return new ListenError("address_in_use", `${at} is in use by another process: choose another port`, { cause });
    case "EADDRNOTAVAIL":
      return new ListenError("address_not_available", `${at}: no such address on this machine`, { cause });
    case "EACCES":
      return new ListenError("permission_denied", `${at}: this user may not listen there`, { cause });
    default:
      return new ListenError("listen_failed", `cannot listen on ${at}: ${message ?? cause}`, { cause });
  }
};

/** What stands between the runtime's program and a file in an argv that runs another file as this one was run. */
export const runtimeArguments = (): readonly string[] => (deno === undefined ? process.execArgv : ["run", "-A"]);

export type StopSignal = "SIGTERM" | "SIGINT";

/** The exit code of a process that a signal has ended, as a shell shows it: 128 + the signal's number. */
export const exitCodeOfSignal = (signal: StopSignal): number => 128 + constants.signals[signal];

/**
 * The first SIGTERM or SIGINT calls `handler`; a second one ends the process at once.
 * @param secondExitCode the exit code then; by default the signal's
 * @returns takes the handlers away again
 */
export const onSignals = (
  handler: (signal: StopSignal) => void,
  secondExitCode: (signal: StopSignal) => number = exitCodeOfSignal,
): (() => void) => {
  let seen = false;
  const listener = (signal: StopSignal): void => {
    if (seen) process.exit(secondExitCode(signal));
    seen = true;
    handler(signal);
  };
  process.on("SIGTERM", listener);
  process.on("SIGINT", listener);
  return () => {
    process.off("SIGTERM", listener);
    process.off("SIGINT", listener);
  };
};
