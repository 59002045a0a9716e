import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { problemBody } from "@orchestrator/shared/http/problem.ts";
import { describe, expect, onTestFinished, test } from "vitest";
import { exampleQueue, exampleRun, exampleTask } from "../../services/scheduler/routes/examples.ts";
import { Feed } from "./feed.ts";

type Respond = (response: ServerResponse) => void;

const json =
  (status: number, body: unknown): Respond =>
  (response) =>
    void response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));

const INTERRUPTED = { ...exampleRun, stage: "review", outcome: "interrupted" };
const BLOCKED = {
  ...exampleTask,
  id: 7,
  status: "blocked",
  blocked_reason: "interrupted 5 times in a row, the last: x",
};

/** What a sound scheduler says that has one open item, which needs a person. */
const SOUND: Record<string, Respond> = {
  "GET /queue": json(200, {
    ...exampleQueue,
    paused: [{ ...exampleQueue.paused[0], what: "all" }],
    tasks: { ...exampleQueue.tasks, by_status: { active: 0, waiting: 0, blocked: 1, done: 0, cancelled: 0 } },
  }),
  "POST /tasks": json(201, exampleTask),
  "GET /tasks/CRASH-1": json(404, problemBody("not_found", "There is no such task.")),
  "GET /tasks?status=blocked&limit=100": json(200, { tasks: [BLOCKED], next_cursor: null }),
  "GET /tasks/7": json(200, { ...BLOCKED, jobs: [], runs: Array(5).fill(INTERRUPTED), events: [] }),
  "POST /tasks/7/retry": json(200, exampleTask),
  "POST /queue/resume": json(200, { paused: [] }),
};

/** A feed for two open items, and a scheduler that answers as told; `answers` may be changed at any time. */
const open = async (over: Record<string, Respond> = {}, answerMs = 20_000) => {
  const answers = { ...SOUND, ...over };
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const what = `${request.method} ${request.url}`;
    asked.push(what);
    const respond = answers[what];
    if (respond === undefined) throw new Error(`nothing is said of ${what}`);
    respond(response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  };
  onTestFinished(close);
  const schedulerUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { feed: new Feed({ schedulerUrl }, 2, answerMs), answers, asked, close };
};

test("a sound scheduler is fed and helped, and nothing is said against it", async () => {
  const { feed } = await open();
  await feed.tend();
  expect(feed.violations).toEqual([]);
  expect(feed.accepted).toEqual(["CRASH-1"]);
  expect(feed.helped).toEqual({ "interrupted five times": 1, "all was paused": 1 });
});

const INTERNAL = problemBody("internal", "The request failed inside the service.");
const LOCKED = problemBody("unavailable", "The database is locked by another program; nothing was changed.");

describe("an answer that must not be is a violation", () => {
  const unsure = "GET /tasks/CRASH-1";
  test.each(Object.keys(SOUND).filter((what) => what !== unsure))("%s", async (what) => {
    for (const [status, body] of [
      [500, INTERNAL],
      [503, LOCKED],
    ] as const) {
      const { feed } = await open({ [what]: json(status, body) });
      await feed.tend();
      expect(feed.violations).toEqual([
        expect.stringMatching(`^${what.replace("?", "\\?")}.* answered with ${status}`),
      ]);
      expect(feed.violations[0]).toContain(body.detail);
    }
  });

  test("to the question whether an item has arrived", async () => {
    const { feed, answers } = await open({ "POST /tasks": (response) => void response.destroy() });
    await feed.tend();
    answers[unsure] = json(500, INTERNAL);
    await feed.tend();
    expect(feed.violations).toEqual([expect.stringMatching(`^${unsure} was answered with 500`)]);
  });

  test.each<[what: string, Respond, said: RegExp]>([
    ["no JSON", (response) => void response.end("<html>"), /^GET \/queue was answered with 200 and no JSON: <html>/],
    ["another shape", json(200, { tasks: {} }), /^GET \/queue was answered with 200 \(.*expected/i],
  ])("%s", async (_, respond, said) => {
    const { feed } = await open({ "GET /queue": respond });
    await feed.tend();
    expect(feed.violations).toEqual([expect.stringMatching(said)]);
  });

  test("none in time", async () => {
    const { feed } = await open({ "GET /queue": () => {} }, 200);
    await feed.tend();
    expect(feed.violations).toEqual(["GET /queue was not answered for 200 ms"]);
  });
});

describe("one that is not there is looked at the next time", () => {
  test("because nobody listens", async () => {
    const { feed, close } = await open();
    await close();
    await feed.tend();
    expect(feed.violations).toEqual([]);
  });

  test("because it is starting", async () => {
    const starting = problemBody("unavailable", "Nothing can be answered yet: the scheduler is starting.");
    const { feed } = await open({ "GET /queue": json(503, starting) });
    await feed.tend();
    expect(feed.violations).toEqual([]);
  });

  test("because it was killed while it answered; what was posted meanwhile is asked for before anything else", async () => {
    const { feed, answers, asked } = await open({
      "POST /tasks": (response) => {
        response.writeHead(201, { "content-length": "1000" }).write('{"id":');
        setImmediate(() => response.destroy());
      },
    });
    await feed.tend();
    expect(feed.violations).toEqual([]);
    expect(feed.accepted).toEqual([]);
    answers["POST /tasks"] = SOUND["POST /tasks"]!;
    asked.length = 0;
    await feed.tend();
    expect(asked[0]).toBe("GET /tasks/CRASH-1");
    expect(feed.accepted).toEqual(["CRASH-1"]);
  });
});
