import { execFile } from "node:child_process";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import {
  type AddressInfo,
  createServer as createTcpServer,
  type LookupFunction,
  type Server,
  type Socket,
} from "node:net";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  answerAtLimit,
  checkHttp,
  classifyError,
  type HttpAnswer,
  type HttpCheckEnd,
} from "../../services/stager/http_check.ts";
import type { HttpCheck } from "../../services/stager/plan.ts";
import { projectRoot, runtimeArgv } from "../helpers/runtime.ts";
import { CERTIFICATE, KEY } from "./fixtures/certificate.ts";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const placeholders = { commit: COMMIT, branch: "work/ä#1", work_item_id: "ORCH-115" };

const listen = async (server: Server): Promise<number> => {
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
const web = async (handler: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> =>
  `http://127.0.0.1:${await listen(createServer(handler))}`;

/** Something that listens and does what it likes with a connection on which something has been asked. */
const tcp = async (answer: (socket: Socket) => void): Promise<string> =>
  `http://127.0.0.1:${await listen(createTcpServer((socket) => socket.once("data", () => answer(socket))))}`;

const check = (url: string, change: Partial<HttpCheck> = {}): HttpCheck => ({
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

interface Surroundings {
  signal?: AbortSignal;
  limit?: AbortSignal;
  lookup?: LookupFunction;
}

/** How a check ends, and of what kind its attempts were. */
const endOf = async (
  request: HttpCheck,
  { signal = new AbortController().signal, ...others }: Surroundings = {},
): Promise<{ end: HttpCheckEnd; attempts: string[] }> => {
  const attempts: string[] = [];
  const onAttempt = (_: number, { kind }: HttpAnswer) => attempts.push(kind);
  return { end: await checkHttp({ check: request, placeholders, signal, onAttempt, ...others }), attempts };
};

/** The answer of a check that makes all its attempts. */
const ask = async (
  request: HttpCheck,
  surroundings?: Surroundings,
): Promise<{ answer: HttpAnswer; attempts: string[] }> => {
  const { end, attempts } = await endOf(request, surroundings);
  if (end.kind !== "answered") throw new Error(`the check was ${end.kind}`);
  return { answer: end.answer, attempts };
};

describe("an answer that is right", () => {
  test("by its status alone, without waiting for its body to end", async () => {
    const url = await web((_, response) => response.writeHead(204).flushHeaders());
    expect(await ask(check(`${url}/healthz?token=x`, { status: 204 }))).toEqual({
      answer: { kind: "right", reason: `${url}/healthz answered 204` },
      attempts: ["right"],
    });
  });

  test("by the text that it contains, though it comes in two pieces and does not end", async () => {
    const url = await web((_, response) => {
      response.write(`{"commit":"${COMMIT.slice(0, 20)}`);
      setTimeout(() => response.write(`${COMMIT.slice(20)}"}`), 30);
    });
    const { answer } = await ask(check(url, { body: '{"commit":"{commit}"}' }));
    expect(answer).toEqual({ kind: "right", reason: `${url}/ answered 200 with the expected text` });
  });

  test("method, URL and headers are what the plan says, with the run's own values in them", async () => {
    const seen: Record<string, unknown> = {};
    const url = await web((request, response) => {
      const { host, "x-branch": branch, accept, "content-length": length } = request.headers;
      Object.assign(seen, { method: request.method, url: request.url, host, accept, length });
      seen.branch = Buffer.from(String(branch), "latin1").toString("utf8");
      response.end("for ORCH-115 and {braces}");
    });
    const { answer } = await ask(
      check(`${url}/{branch}/{commit}?item={work_item_id}`, {
        method: "POST",
        headers: { "X-Branch": "{branch}", Host: "shop.test", Accept: "text/plain" },
        body: "for {work_item_id} and {braces}",
      }),
    );
    expect(answer.kind).toBe("right");
    expect(seen).toEqual({
      method: "POST",
      url: `/work/%C3%A4%231/${COMMIT}?item=ORCH-115`,
      host: "shop.test",
      accept: "text/plain",
      branch: "work/ä#1",
      length: "0",
    });
  });

  test("after attempts that were not", async () => {
    let asked = 0;
    const url = await web((_, response) => {
      asked += 1;
      response.writeHead(asked < 3 ? 503 : 200).end();
    });
    expect(await ask(check(url, { attempts: 5 }))).toEqual({
      answer: { kind: "right", reason: `${url}/ answered 200` },
      attempts: ["wrong", "wrong", "right"],
    });
  });
});

describe("an answer that is not", () => {
  test("another status; the beginning of what it says is kept", async () => {
    const url = await web((_, response) => response.writeHead(500).end(`no database\n${"x".repeat(100_000)}`));
    const { answer } = await ask(check(url, { body: "no database" }));
    expect(answer).toMatchObject({ kind: "wrong", reason: `${url}/ answered 500, expected 200` });
    expect(answer.excerpt).toMatch(/^no database\nx{900,1000}$/);
  });

  test("another text", async () => {
    const url = await web((_, response) => response.end("an older commit"));
    const { answer } = await ask(check(url, { body: "{commit}" }));
    expect(answer).toEqual({
      kind: "wrong",
      reason: `${url}/ answered 200 without the expected text`,
      excerpt: "an older commit",
    });
  });

  test("a redirect is an answer like any other", async () => {
    let followed = false;
    const url = await web((request, response) => {
      followed ||= request.url === "/there";
      response.writeHead(302, { location: "/there" }).end();
    });
    expect((await ask(check(url))).answer.reason).toBe(`${url}/ answered 302, expected 200`);
    expect((await ask(check(url, { status: 302 }))).answer.kind).toBe("right");
    expect(followed).toBe(false);
  });

  test.each<[string, (socket: Socket) => void, HttpAnswer["kind"]]>([
    ["a reset", (socket) => socket.resetAndDestroy(), "reset"],
    ["a connection that is closed", (socket) => socket.end(), "reset"],
    ["a body that breaks off", (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"), "reset"],
    ["something else than HTTP", (socket) => socket.end("220 smtp ready\r\n\r\n"), "wrong"],
    ["silence", () => {}, "slow"],
    ["silence after the headers", (socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), "slow"],
    [
      "another status, then silence",
      (socket) => socket.write("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nabc"),
      "wrong",
    ],
    [
      "another status that breaks off",
      (socket) => socket.end("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nabc"),
      "wrong",
    ],
  ])("%s", async (_, answer, kind) => {
    const url = await tcp(answer);
    expect((await ask(check(url, { body: "expected", timeoutMs: 300 }))).answer.kind).toBe(kind);
  });

  test("nobody listens: each attempt is made, the last one counts", async () => {
    const { port } = await freePort();
    const { answer, attempts } = await ask(check(`http://127.0.0.1:${port}/x`, { attempts: 3 }));
    expect(answer).toEqual({ kind: "refused", reason: `http://127.0.0.1:${port}/x refused the connection` });
    expect(attempts).toEqual(["refused", "refused", "refused"]);
  });

  test("credentials and query do not get into what is shown", async () => {
    const { port } = await freePort();
    const { answer } = await ask(check(`http://user:secret@127.0.0.1:${port}/x?key=secret`));
    expect(answer.reason).not.toContain("secret");
  });

  test("a URL that is none once the values are in it", async () => {
    expect((await ask(check("http://127.0.0.1:{commit}/"))).answer.kind).toBe("wrong");
  });
});

const freePort = async (): Promise<{ port: number }> => {
  const server = createTcpServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return { port };
};

describe("what lies between", () => {
  test("a name that cannot be resolved", async () => {
    const { answer } = await ask(check("http://no-such-host.invalid/"));
    expect(answer.kind).toBe("name_resolution");
  });

  test("an address to which there is no way", async () => {
    expect((await ask(check("http://255.255.255.255:9/"))).answer.kind).toBe("routing");
  });

  test("a certificate that nobody trusts, and HTTPS that is not spoken", async () => {
    const port = await listen(createTlsServer({ key: KEY, cert: CERTIFICATE }, (_, response) => response.end("hello")));
    expect((await ask(check(`https://127.0.0.1:${port}/`))).answer.kind).toBe("certificate");
    const plain = await web((_, response) => response.end());
    expect((await ask(check(plain.replace("http:", "https:")))).answer.kind).toBe("wrong");
  });

  test.each<[string, unknown, HttpAnswer["kind"]]>([
    ["getaddrinfo that must be tried again", { code: "EAI_AGAIN" }, "name_resolution"],
    ["no route", { code: "EHOSTUNREACH" }, "routing"],
    ["forbidden by a firewall", { code: "EACCES" }, "routing"],
    ["a connection that timed out in the kernel", { code: "ETIMEDOUT" }, "slow"],
    ["an expired certificate", { code: "CERT_HAS_EXPIRED" }, "certificate"],
    ["a certificate for another name", { code: "ERR_TLS_CERT_ALTNAME_INVALID" }, "certificate"],
    ["an unknown authority", { code: "UNABLE_TO_GET_ISSUER_CERT_LOCALLY" }, "certificate"],
    ["an unknown signature", { code: "UNABLE_TO_VERIFY_LEAF_SIGNATURE" }, "certificate"],
    ["a self-signed chain", { code: "SELF_SIGNED_CERT_IN_CHAIN" }, "certificate"],
    ["no TLS", { code: "EPROTO" }, "wrong"],
    ["no sockets left", { code: "EMFILE" }, "local"],
    ["something unheard of", new Error("boo"), "local"],
    [
      "two addresses, one refused",
      { code: "ENETUNREACH", errors: [{ code: "ENETUNREACH" }, { code: "ECONNREFUSED" }] },
      "refused",
    ],
    ["two addresses, no way to either", { errors: [{ code: "ENETUNREACH" }, { code: "EHOSTUNREACH" }] }, "routing"],
  ])("%s", (_, error, kind) => {
    expect(classifyError(error, { shown: "https://host/", timeoutMs: 1000 }).kind).toBe(kind);
  });

  test("a proxy in the environment is not used", async () => {
    const proxy = await web((_, response) => response.end("by the proxy"));
    const url = await web((_, response) => response.end("straight"));
    const [program, ...args] = runtimeArgv("test/stager/fixtures/ask_once.ts");
    const proxies = { HTTP_PROXY: proxy, http_proxy: proxy, ALL_PROXY: proxy, NODE_USE_ENV_PROXY: "1" };
    const { stdout } = await promisify(execFile)(program, [...args, url], {
      cwd: projectRoot,
      env: { ...process.env, NO_PROXY: "", no_proxy: "", ...proxies },
    });
    expect(stdout).toBe("right\n");
  });
});

/** A name server that is silent until the test lets it answer. */
const silentNames = () => {
  const asked: Parameters<LookupFunction>[] = [];
  const lookup: LookupFunction = (...call) => asked.push(call);
  const answerAll = (address: string) => {
    for (const [, , callback] of asked) callback(null, [{ address, family: 4 }]);
  };
  return { asked, lookup, answerAll };
};

/** Every name is this machine. */
const lookup: LookupFunction = (_, __, callback) => callback(null, [{ address: "127.0.0.1", family: 4 }]);

describe("the host's name", () => {
  test("a name server that does not answer is not the host's silence", async () => {
    const names = silentNames();
    const { answer, attempts } = await ask(check("http://shop.test/x?y", { attempts: 2, timeoutMs: 200 }), names);
    const reason = "the host of http://shop.test/x was not resolved in 0.2 s";
    expect(answer).toEqual({ kind: "name_resolution", reason });
    expect(attempts).toEqual(["name_resolution", "name_resolution"]);
    expect(names.asked.map(([name]) => name)).toEqual(["shop.test", "shop.test"]);
  });

  test("an address that comes after that is not asked any more", async () => {
    const asked: unknown[] = [];
    const url = await web((request, response) => {
      asked.push(request.url);
      response.end();
    });
    const names = silentNames();
    const { port } = new URL(url);
    await ask(check(`http://shop.test:${port}/late`, { timeoutMs: 100 }), names);
    names.answerAll("127.0.0.1");
    expect((await ask(check(`${url}/after`))).answer.kind).toBe("right");
    expect(asked).toEqual(["/after"]);
  });

  test("a name server that says so", async () => {
    const failing: LookupFunction = (_, __, callback) =>
      callback(Object.assign(new Error("try again"), { code: "EAI_AGAIN" }), []);
    const { answer } = await ask(check("https://shop.test/"), { lookup: failing });
    const reason = "the host of https://shop.test/ cannot be resolved (EAI_AGAIN)";
    expect(answer).toEqual({ kind: "name_resolution", reason });
  });

  test("a host whose address is known and that is silent is slow", async () => {
    const { port } = new URL(await tcp(() => {}));
    const { answer } = await ask(check(`http://shop.test:${port}/`, { timeoutMs: 300 }), { lookup });
    expect(answer).toEqual({ kind: "slow", reason: `http://shop.test:${port}/ did not answer within 0.3 s` });
  });

  test("is what the host is asked by, whatever its address", async () => {
    const url = await web((request, response) => response.end(request.headers.host));
    const named = url.replace("127.0.0.1", "shop.test");
    expect((await ask(check(named, { body: named.slice("http://".length) }), { lookup })).answer.kind).toBe("right");
  });

  test("is what the certificate must be for", async () => {
    const names: string[] = [];
    const server = createTlsServer({
      key: KEY,
      cert: CERTIFICATE,
      SNICallback: (name, callback) => {
        names.push(name);
        callback(null);
      },
    });
    const { answer } = await ask(check(`https://shop.test:${await listen(server)}/`), { lookup });
    expect(answer.kind).toBe("certificate");
    expect(names).toEqual(["shop.test"]);
  });
});

describe("a check whose time is over", () => {
  const answer = (kind: HttpAnswer["kind"]): HttpAnswer => ({ kind, reason: "why" });

  test.each<[string, HttpAnswer | null, number | null, HttpAnswer["kind"] | null]>([
    ["nothing was answered", null, null, null],
    ["the name was waited for", null, 1000, "name_resolution"],
    ["the name was waited for, but not for long", null, 999, null],
    ["no such name", answer("name_resolution"), null, "name_resolution"],
    ["no way there", answer("routing"), null, "routing"],
    ["a bad certificate", answer("certificate"), null, "certificate"],
    ["no socket to be had", answer("local"), null, "local"],
    ["no way there, the name is waited for once more", answer("routing"), 5000, "routing"],
    ["refused", answer("refused"), null, null],
    ["reset", answer("reset"), null, null],
    ["slow", answer("slow"), null, null],
    ["wrong", answer("wrong"), null, null],
    ["wrong, the name is waited for once more", answer("wrong"), 5000, null],
  ])("%s", (_, last, resolvingMs, kind) => {
    expect(answerAtLimit(last, resolvingMs, { shown: "http://host/" })?.kind ?? null).toBe(kind);
  });

  test("ends between two attempts with the last answer, where that is not the work's", async () => {
    const limit = new AbortController();
    const failing: LookupFunction = (_, __, callback) => {
      callback(Object.assign(new Error("no such name"), { code: "ENOTFOUND" }), []);
      setTimeout(() => limit.abort(), 50);
    };
    const request = check("http://shop.test/", { attempts: 9, intervalMs: 60_000 });
    expect(await endOf(request, { limit: limit.signal, lookup: failing })).toEqual({
      end: {
        kind: "out_of_time",
        answer: {
          kind: "name_resolution",
          reason: "the host of http://shop.test/ cannot be resolved (ENOTFOUND), until the time was over",
        },
      },
      attempts: ["name_resolution"],
    });
  });

  test("ends while the name is waited for", async () => {
    const { lookup } = silentNames();
    const { end, attempts } = await endOf(check("http://shop.test/"), { limit: AbortSignal.timeout(1200), lookup });
    expect(end).toEqual({
      kind: "out_of_time",
      answer: { kind: "name_resolution", reason: "the host of http://shop.test/ was not resolved in time" },
    });
    expect(attempts).toEqual([]);
  });

  test("ends while an answer is awaited", async () => {
    const limit = new AbortController();
    const url = await tcp(() => limit.abort());
    expect((await endOf(check(url), { limit: limit.signal })).end).toEqual({ kind: "out_of_time", answer: null });
  });

  test("is thrown out of all the same by whoever ends the run", async () => {
    const limit = new AbortController();
    const abort = new AbortController();
    const failing: LookupFunction = (_, __, callback) => {
      callback(Object.assign(new Error("no such name"), { code: "ENOTFOUND" }), []);
      setTimeout(() => {
        limit.abort();
        abort.abort(new Error("enough"));
      }, 50);
    };
    const request = check("http://shop.test/", { attempts: 9, intervalMs: 60_000 });
    const surroundings = { limit: limit.signal, signal: abort.signal, lookup: failing };
    await expect(endOf(request, surroundings)).rejects.toThrow("enough");
  });
});

describe("ending a check", () => {
  test("while an answer is awaited", async () => {
    const abort = new AbortController();
    const url = await tcp(() => abort.abort(new Error("enough")));
    await expect(ask(check(url), { signal: abort.signal })).rejects.toThrow("enough");
  });

  test("between two attempts", async () => {
    const abort = new AbortController();
    const url = await web((_, response) =>
      response.writeHead(503).end(() => setTimeout(() => abort.abort(new Error("enough")), 20)),
    );
    await expect(ask(check(url, { attempts: 2, intervalMs: 60_000 }), { signal: abort.signal })).rejects.toThrow(
      "enough",
    );
  });

  test("before it has begun", async () => {
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(ask(check("http://127.0.0.1:1/"), { signal })).rejects.toThrow("enough");
  });
});
