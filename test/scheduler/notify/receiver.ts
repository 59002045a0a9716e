import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface Received {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

export interface Receiver {
  url: string;
  received: Received[];
  /** Resolves when so many have been received. */
  whenReceived(count: number): Promise<void>;
}

/** Answers the nth request, from 1. */
export type Answering = (response: ServerResponse, n: number) => void;

/** A real server that notifications are posted to. */
export const startReceiver = async (
  answer: Answering = (response) => response.writeHead(204).end(),
): Promise<Receiver> => {
  const received: Received[] = [];
  const waiting: (() => void)[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      received.push({ method, path: url, headers, body: Buffer.concat(chunks).toString("utf8") });
      for (const wake of waiting.splice(0)) wake();
      answer(response, received.length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook/the-secret-path`,
    received,
    whenReceived: async (count) => {
      while (received.length < count) await new Promise<void>((resolve) => waiting.push(resolve));
    },
  };
};

export const NOTIFICATION = {
  on: "blocked",
  id: 41,
  task_id: 3,
  job_id: 7,
  run_id: 9,
  at: "2030-01-02T03:04:05.000Z",
  kind: "blocked",
  detail: { stage: "review", reason: "attempt 3 of 3 ended failed: “gate” – ünreadable" },
  work_item_id: "ORCH-115",
  repo: "shop",
  branch: "work/ORCH-115",
  stage: "review",
  status: "blocked",
  reason: "attempt 3 of 3 ended failed: “gate” – ünreadable",
} as const;
