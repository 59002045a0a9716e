import { once } from "node:events";
import { createServer, type Server } from "node:net";

/** Below the range that the kernel gives to outgoing connections, so that nothing takes a port that was found free. */
const FIRST_PORT = 20_000;
const LAST_PORT = 32_000;

const listen = async (port: number): Promise<Server | null> => {
  const server = createServer();
  try {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    return server;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return null;
    throw error;
  }
};

/** `count` different ports on 127.0.0.1 that nobody listens on. All are held at once while they are looked for. */
export const freePorts = async (count: number): Promise<number[]> => {
  const held = new Map<number, Server>();
  while (held.size < count) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT));
    const server = held.has(port) ? null : await listen(port);
    if (server) held.set(port, server);
  }
  await Promise.all([...held.values()].map((server) => once(server.close(), "close")));
  return [...held.keys()];
};
