import { createServer as createTlsServer } from "node:https";
import type { LookupFunction } from "node:net";
import { describe, expect, test } from "vitest";
import { answerAtLimit, type HttpAnswer } from "../../services/stager/http_check.ts";
import { CERTIFICATE, KEY } from "./fixtures/certificate.ts";
import { ask, check, endOf, listen, tcp, web } from "./http_check_bench.ts";

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
