import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import {
  type AddressInfo,
  createServer as createTcpServer,
  type LookupFunction,
  type Server,
  type Socket,
} from "node:net";
import { onTestFinished } from "vitest";
import { checkHttp, type HttpAnswer, type HttpCheckEnd } from "../../services/stager/http_check.ts";
import type { HttpCheck } from "../../services/stager/plan.ts";

/** The commit that is checked, as `{commit}` stands for it. */
export const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const placeholders = { commit: COMMIT, branch: "work/ä#1", work_item_id: "ORCH-115" };

/** Has a server listen, until the test has finished. @returns its port. */
export const listen = async (server: Server): Promise<number> => {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  });
  return (server.address() as AddressInfo).port;
};

/** A web server of the test's own. @returns its URL. */
export const web = async (handler: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> =>
  `http://127.0.0.1:${await listen(createServer(handler))}`;

/** Something that listens and does what it likes with a connection on which something has been asked. */
export const tcp = async (answer: (socket: Socket) => void): Promise<string> =>
  `http://127.0.0.1:${await listen(createTcpServer((socket) => socket.once("data", () => answer(socket))))}`;

/** A GET as a plan asks for it, of one attempt, and what is different about it. */
export const check = (url: string, change: Partial<HttpCheck> = {}): HttpCheck => ({
  method: "GET",
  url,
  headers: {},
  status: 200,
  body: null,
  attempts: 1,
  intervalMs: 1,
  timeoutMs: 5000,
  ...change,
});

export interface Surroundings {
  signal?: AbortSignal;
  limit?: AbortSignal;
  lookup?: LookupFunction;
}

/** How a check ends, and of what kind its attempts were. */
export const endOf = async (
  request: HttpCheck,
  { signal = new AbortController().signal, ...others }: Surroundings = {},
): Promise<{ end: HttpCheckEnd; attempts: string[] }> => {
  const attempts: string[] = [];
  const onAttempt = (_: number, { kind }: HttpAnswer) => attempts.push(kind);
  return { end: await checkHttp({ check: request, placeholders, signal, onAttempt, ...others }), attempts };
};

/** The answer of a check that makes all its attempts. */
export const ask = async (
  request: HttpCheck,
  surroundings?: Surroundings,
): Promise<{ answer: HttpAnswer; attempts: string[] }> => {
  const { end, attempts } = await endOf(request, surroundings);
  if (end.kind !== "answered") throw new Error(`the check was ${end.kind}`);
  return { answer: end.answer, attempts };
};
