import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { ListenError, type RunningServer, serve } from "@orchestrator/shared/serve.ts";
import { afterEach, describe, expect, test } from "vitest";

const running: RunningServer[] = [];
const sockets: Socket[] = [];
const children: ChildProcess[] = [];
const errors: unknown[] = [];

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const child of children.splice(0)) child.kill("SIGKILL");
  await Promise.all(running.splice(0).map((server) => server.close(0)));
  errors.length = 0;
});

const start = async (fetch: (request: Request) => Response | Promise<Response>): Promise<RunningServer> => {
  const server = await serve({ fetch, host: "127.0.0.1", port: 0, onError: (error) => errors.push(error) });
  running.push(server);
  return server;
};

/** A connection of our own, so that nothing closes or reuses it behind our back. */
const open = async (port: number): Promise<{ socket: Socket; closed: Promise<void>; firstData: Promise<string> }> => {
  const socket = connect(port, "127.0.0.1");
  sockets.push(socket);
  socket.on("error", () => socket.destroy());
  await once(socket, "connect");
  return {
    socket,
    closed: once(socket, "close").then(() => {}),
    firstData: new Promise((resolve) => socket.once("data", (data) => resolve(data.toString()))),
  };
};

const REQUEST = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

const deferred = <T = void>() => {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
};

describe("listening", () => {
  test("port 0 takes a free port and answers there", async () => {
    const server = await start((request) => new Response(`you asked for ${new URL(request.url).pathname}`));
    expect(server.port).toBeGreaterThan(0);
    const answer = await fetch(`http://127.0.0.1:${server.port}/here`);
    expect(await answer.text()).toBe("you asked for /here");
  });

  test("a port in use is a ListenError that says so, and the first server goes on", async () => {
    const { port } = await start(() => new Response("first"));
    const second = serve({ fetch: () => new Response("second"), host: "127.0.0.1", port, onError: () => {} });
    await expect(second).rejects.toThrow(ListenError);
    await expect(second).rejects.toMatchObject({
      code: "address_in_use",
      message: `127.0.0.1:${port} is in use by another process: choose another port`,
    });
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("first");
  });

  test("a port that something else than this code listens on is in use too", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as { port: number };
    const attempt = serve({ fetch: () => new Response(), host: "127.0.0.1", port, onError: () => {} });
    await expect(attempt).rejects.toMatchObject({ code: "address_in_use" });
    other.close();
    await once(other, "close");
  });

  test.each([
    ["192.0.2.1", "address_not_available"],
    ["no-such-host.invalid", "listen_failed"],
  ])("listening on %s is refused as %s", async (host, code) => {
    const attempt = serve({ fetch: () => new Response(), host, port: 0, onError: () => {} });
    await expect(attempt).rejects.toMatchObject({ name: "ListenError", code });
  });

  test("a handler that throws is a 500 that says nothing of it, and onError hears of it", async () => {
    const failure = new Error("handler failed");
    const server = await start(() => Promise.reject(failure));
    const answer = await fetch(`http://127.0.0.1:${server.port}/`);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([500, "application/problem+json"]);
    expect(await answer.text()).not.toContain("handler failed");
    expect(errors).toEqual([failure]);
  });

  test("a client that leaves aborts the request's signal", async () => {
    const aborted = deferred();
    const arrived = deferred();
    const server = await start((request) => {
      request.signal.addEventListener("abort", () => aborted.resolve());
      arrived.resolve();
      return new Response(new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array([46])) }));
    });
    const { socket, firstData } = await open(server.port);
    socket.write(REQUEST);
    await arrived.promise;
    await firstData;
    socket.destroy();
    await aborted.promise;
  });
});

describe("close", () => {
  test("does not wait for a connection that is kept alive", async () => {
    const server = await start(() => new Response("done"));
    const { socket, closed, firstData } = await open(server.port);
    socket.write(REQUEST);
    expect(await firstData).toContain("200 OK");
    const before = performance.now();
    await server.close();
    await closed;
    expect(performance.now() - before).toBeLessThan(2_000);
  });

  test("does not wait for a connection that has not asked for anything yet", async () => {
    const server = await start(() => new Response("done"));
    const { closed } = await open(server.port);
    // The server has seen the connection once a later one has been answered.
    await (await fetch(`http://127.0.0.1:${server.port}/`)).text();
    const before = performance.now();
    await server.close();
    await closed;
    expect(performance.now() - before).toBeLessThan(2_000);
  });

  test("lets a request in flight finish, takes no new one, and closes its connection after it", async () => {
    const arrived = deferred();
    const release = deferred();
    const server = await start(async () => {
      arrived.resolve();
      await release.promise;
      return new Response("finished");
    });
    const { socket, closed, firstData } = await open(server.port);
    socket.write(REQUEST);
    await arrived.promise;
    let isClosed = false;
    const closing = server.close().then(() => {
      isClosed = true;
    });
    const refused = connect(server.port, "127.0.0.1");
    await expect(once(refused, "connect")).rejects.toMatchObject({ code: "ECONNREFUSED" });
    expect(isClosed).toBe(false);
    release.resolve();
    expect(await firstData).toContain("200 OK");
    await closing;
    await closed;
  });

  test("waits for an open stream, which an abort signal ends", async () => {
    const stop = new AbortController();
    const server = await start(() => {
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          controller.enqueue(new TextEncoder().encode("first\n"));
          stop.signal.addEventListener("abort", () => {
            controller.enqueue(new TextEncoder().encode("last\n"));
            controller.close();
          });
        },
      });
      return new Response(body);
    });
    const answer = await fetch(`http://127.0.0.1:${server.port}/`);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader.read()).value).toBe("first\n");
    let isClosed = false;
    const closing = server.close(20_000).then(() => {
      isClosed = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isClosed).toBe(false);
    stop.abort();
    expect((await reader.read()).value).toBe("last\n");
    expect((await reader.read()).done).toBe(true);
    await closing;
  });

  test("does not wait longer than the grace for what never ends", async () => {
    const server = await start(
      () => new Response(new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array([46])) })),
    );
    const { socket, firstData } = await open(server.port);
    socket.write(REQUEST);
    await firstData;
    const before = performance.now();
    await server.close(50);
    const tookMs = performance.now() - before;
    expect(tookMs).toBeGreaterThan(40);
    expect(tookMs).toBeLessThan(4_000);
  });

  test("may be called twice", async () => {
    const server = await start(() => new Response());
    await Promise.all([server.close(), server.close()]);
  });
});

describe("signals", () => {
  const program = fileURLToPath(new URL("fixtures/signals.ts", import.meta.url));

  /** The runtime that runs this test also runs the program. */
  const startProgram = (...args: string[]): { child: ChildProcess; nextLine: () => Promise<string> } => {
    const runtime = "Deno" in globalThis ? ["run", "-A"] : ["--import", "tsx"];
    const child = spawn(process.execPath, [...runtime, program, ...args], { stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    let text = "";
    let wake = (): void => {};
    child.stdout!.on("data", (data) => {
      text += data;
      wake();
    });
    return {
      child,
      nextLine: async () => {
        while (!text.includes("\n")) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
        const line = text.slice(0, text.indexOf("\n"));
        text = text.slice(line.length + 1);
        return line;
      },
    };
  };

  test.each(["SIGTERM", "SIGINT"] as const)(
    "a first %s calls the handler, which decides the exit code",
    async (signal) => {
      const { child, nextLine } = startProgram("exit");
      expect(await nextLine()).toBe("ready");
      // Under Deno, child.kill() makes the child's exit look like a death by that signal, whatever it was.
      process.kill(child.pid!, signal);
      expect(await nextLine()).toBe(`stopping ${signal}`);
      expect(await once(child, "exit")).toEqual([3, null]);
    },
  );

  test.each([
    ["default", 143],
    ["own", 75],
  ])("a second signal ends the process at once (%s exit code: %i)", async (code, expected) => {
    const { child, nextLine } = startProgram("hang", code);
    expect(await nextLine()).toBe("ready");
    process.kill(child.pid!, "SIGINT");
    expect(await nextLine()).toBe("stopping SIGINT");
    process.kill(child.pid!, "SIGTERM");
    expect(await once(child, "exit")).toEqual([expected, null]);
  });
});
