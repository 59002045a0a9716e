import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { StagingRunRequest } from "@orchestrator/shared/schemas/staging_run.ts";
import { onTestFinished } from "vitest";

export interface StagingCallSeen {
  request: StagingRunRequest;
  /** What was asked for, with the path that stands before the stager's own. */
  path: string;
  headers: IncomingMessage["headers"];
  /** Writes one line of the answer; a text is written as it stands. */
  send(event: object | string): void;
  /** Ends the answer. */
  end(): void;
  /** Cuts the connection. */
  cut(): void;
  /** Resolves when the other side has gone. */
  gone: Promise<void>;
  response: ServerResponse;
}

/** A stager that answers what a test has it answer. */
export const startFakeStager = async (
  answer: (call: StagingCallSeen) => void | Promise<void>,
): Promise<{ url: string; calls: StagingRunRequest[] }> => {
  const calls: StagingRunRequest[] = [];
  const server = createServer(async (message, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of message) chunks.push(chunk as Buffer);
    const request = JSON.parse(Buffer.concat(chunks).toString()) as StagingRunRequest;
    calls.push(request);
    await answer({
      request,
      path: message.url ?? "",
      headers: message.headers,
      response,
      send: (event) => void response.write(typeof event === "string" ? event : `${JSON.stringify(event)}\n`),
      end: () => void response.end(),
      cut: () => void response.socket?.destroy(),
      gone: new Promise((resolve) => response.once("close", resolve)),
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls };
};
