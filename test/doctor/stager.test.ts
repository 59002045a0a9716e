import { describe, expect, test } from "vitest";
import { checkStager } from "../../services/doctor/check_stager.ts";
import { TIMEOUTS_MS } from "../../services/doctor/checks.ts";
import { makeContext, shown } from "./context.ts";
import { type Answering, listen, listenSilently } from "./servers.ts";

describe("stager", () => {
  const TOKEN = "the-token-of-the-stager";
  const document = JSON.stringify({ info: { title: "Orchestrator: stager" } });
  const ready = JSON.stringify({ ready: true, reasons: [] });
  const check = async (answer: Answering, token: string | null) => {
    const stagerUrl = await listen(answer);
    const { context } = await makeContext({ stagingRunnerEnabled: true, stagerUrl, stagerToken: token });
    return (await shownAll(context)).map((line) => line.replace(stagerUrl, "URL"));
  };
  const shownAll = async (context: Parameters<typeof checkStager>[0]) => shown(await checkStager(context));
  const withToken =
    (readiness: [number, string]): Answering =>
    (path, { authorization }) => {
      if (path === "/readyz") return readiness;
      return authorization === `Bearer ${TOKEN}` ? [200, document] : [401, "{}"];
    };

  test("switched off, or nobody there", async () => {
    const { context } = await makeContext({ stagingRunnerEnabled: false });
    expect(await shownAll(context)).toEqual(["ok stager not used (ORCH_STAGING_RUNNER_ENABLED is false)"]);
    const { context: alone } = await makeContext({ stagingRunnerEnabled: true, stagerUrl: "http://127.0.0.1:1" });
    expect(await shownAll(alone)).toEqual([
      expect.stringMatching(
        /^warn stager http:\/\/127\.0\.0\.1:1 does not answer \(.+\) -> npm start starts it; where it runs elsewhere, correct ORCH_STAGER_URL$/,
      ),
    ]);
  });

  test("ready, with the right token, a wrong one, and none", async () => {
    expect(await check(withToken([200, ready]), TOKEN)).toEqual(["ok stager URL is ready and accepts the token"]);
    expect(await check(withToken([200, ready]), "another-token")).toEqual([
      "fail stager URL does not accept ORCH_STAGER_TOKEN -> give both services the same token",
    ]);
    expect(await check(withToken([200, ready]), null)).toEqual([
      "fail stager URL asks for a token -> set ORCH_STAGER_TOKEN here to the one that it has",
    ]);
    expect(await check((path) => [200, path === "/readyz" ? ready : document], null)).toEqual([
      "ok stager URL is ready",
    ]);
  });

  test("behind a path", async () => {
    const url = await listen((path) => {
      if (path === "/base/readyz") return [200, ready];
      return path === "/base/openapi.json" ? [200, document] : [404, "{}"];
    });
    const { context } = await makeContext({ stagingRunnerEnabled: true, stagerUrl: `${url}/base` });
    expect(await shownAll(context)).toEqual([`ok stager ${url}/base is ready`]);
  });

  test("not ready, another service, something else, and one that says nothing", async () => {
    const waiting = JSON.stringify({ ready: false, reasons: ["no database", "no scratch"] });
    expect(await check(withToken([503, waiting]), TOKEN)).toEqual([
      "warn stager URL answers and is not ready: no database; no scratch -> see its log",
    ]);
    const scheduler = JSON.stringify({ info: { title: "Orchestrator: scheduler" } });
    expect(await check((path) => [200, path === "/readyz" ? ready : scheduler], null)).toEqual([
      "fail stager what listens on URL is another service -> correct ORCH_STAGER_URL",
    ]);
    expect(await check(() => [200, "<html>"], null)).toEqual([
      "fail stager what listens on URL is no stager (GET /readyz is answered 200) -> correct ORCH_STAGER_URL",
    ]);
    const stagerUrl = await listenSilently();
    const { context } = await makeContext(
      { stagingRunnerEnabled: true, stagerUrl },
      { timeoutsMs: { ...TIMEOUTS_MS, service: 200 } },
    );
    expect(await shownAll(context)).toEqual([
      `warn stager ${stagerUrl} does not answer (no answer within 0.2 s) -> npm start starts it; where it runs elsewhere, correct ORCH_STAGER_URL`,
    ]);
  });
});
