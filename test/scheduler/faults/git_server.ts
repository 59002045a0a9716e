import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { dirname } from "node:path";
import { onTestFinished } from "vitest";

export interface GitServer {
  url: string;
  /** Answers each connection with git's own server, or takes it and stays silent. */
  mode: "well" | "hanging";
  /** How many connections there were. */
  connections: number;
  /** Lets nobody connect any more. */
  close(): Promise<void>;
  /** Listens again where it did. */
  open(): Promise<void>;
}

/** A git server on a port of its own for a bare repository; gone when the test has finished. */
export const startGitServer = async (repository: string): Promise<GitServer> => {
  const children = new Set<ChildProcess>();
  const sockets = new Set<Socket>();
  const folder = dirname(repository);
  const args = ["--inetd", "--export-all", "--enable=receive-pack", `--base-path=${folder}`, folder];
  const server = createServer((socket) => {
    self.connections += 1;
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    if (self.mode === "hanging") return;
    const child = spawn("git", ["-c", "safe.directory=*", "daemon", ...args], { stdio: ["pipe", "pipe", "ignore"] });
    children.add(child);
    child.once("close", () => children.delete(child));
    child.stdin!.on("error", () => {});
    socket.pipe(child.stdin!);
    child.stdout!.pipe(socket);
  });
  let port = 0;
  const open = async () => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    port = (server.address() as { port: number }).port;
  };
  const close = async () => {
    if (!server.listening) return;
    const closed = once(server, "close");
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  await open();
  onTestFinished(async () => {
    await close();
    for (const child of children) {
      child.kill("SIGKILL");
      await once(child, "close");
    }
  });
  const self: GitServer = {
    url: `git://127.0.0.1:${port}${repository.slice(folder.length)}`,
    mode: "well",
    connections: 0,
    close,
    open,
  };
  return self;
};
