import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { onTestFinished } from "vitest";

/** Answers a request for a path with a status and a text. */
export type Answering = (path: string, headers: Record<string, unknown>) => [number, string];

/** A server on a free port. @returns its URL. */
export const listen = async (answer: Answering): Promise<string> => {
  const server = createServer((request, response) => {
    const [status, text] = answer(request.url ?? "", request.headers);
    response.writeHead(status).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

/** A server that takes connections and says nothing. */
export const listenSilently = async (): Promise<string> => {
  const sockets = new Set<{ destroy(): void }>();
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};
