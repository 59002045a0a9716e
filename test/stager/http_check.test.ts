import { execFile } from "node:child_process";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { classifyError, type HttpAnswer } from "../../services/stager/http_check.ts";
import { projectRoot, runtimeArgv } from "../helpers/runtime.ts";
import { CERTIFICATE, KEY } from "./fixtures/certificate.ts";
import { ask, COMMIT, check, listen, tcp, web } from "./http_check_bench.ts";

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
