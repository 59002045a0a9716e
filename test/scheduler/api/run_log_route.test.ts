import { randomBytes } from "node:crypto";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { statusAndCode } from "../../shared/http/harness.ts";
import { openSite, PASSED, type Site } from "./site.ts";

const running = async () => {
  const site = await openSite();
  await site.create("ORCH-1");
  const { run } = await site.claim();
  const path = run.claim.run.logPath!;
  const openLog = () => site.context.runLogs.open(1, { path, maxBytes: 100_000 });
  return { ...site, run, path, openLog };
};

const finished = async (content: Uint8Array | string) => {
  const site = await running();
  await mkdir(dirname(site.path), { recursive: true });
  await writeFile(site.path, content);
  await site.settle(site.run, PASSED);
  return site;
};

const log = ({ app }: Pick<Site, "app">, query = ""): Promise<Response> =>
  Promise.resolve(app.request(`/runs/1/log${query}`));

test("a finished log is its bytes, as plain text", async () => {
  const bytes = randomBytes(200_000);
  const answer = await log(await finished(bytes));
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toBe("text/plain; charset=utf-8");
  expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
  expect(Buffer.from(await answer.arrayBuffer()).equals(bytes)).toBe(true);
});

test.each([
  ["?tail=5", "four\n"],
  ["?tail=0", ""],
  ["?tail=999999999999999", "three\nfour\n"],
  ["?follow=false", "three\nfour\n"],
  ["?follow=true", "three\nfour\n"],
  ["?follow=true&tail=5", "four\n"],
])("%s of a finished log", async (query, text) => {
  const site = await finished("three\nfour\n");
  expect(await (await log(site, query)).text()).toBe(text);
});

test("a log that was removed is 404, and says nothing of where it was", async () => {
  const site = await finished("x");
  await rm(site.path);
  const answer = await log(site);
  expect(await statusAndCode(answer.clone())).toEqual([404, "not_found"]);
  expect(await answer.text()).not.toContain(site.folder);
});

test("a log that cannot be read is 500, and says nothing of where it is", async () => {
  const site = await finished("x");
  await site.storage.write((tx) => tx.run("UPDATE agent_runs SET log_path = ?", [`${site.path}/${"x".repeat(300)}`]));
  const answer = await log(site);
  expect(await statusAndCode(answer.clone())).toEqual([500, "internal"]);
  expect(await answer.text()).not.toContain(site.folder);
  expect(JSON.stringify(site.lines())).toContain(site.folder);
});

test("a run that has not begun its log has an empty one", async () => {
  const answer = await log(await running());
  expect([answer.status, await answer.text()]).toEqual([200, ""]);
});

test("a follower reads until the run has ended, from before the log was begun", async () => {
  const site = await running();
  const answer = await log(site, "?follow=true");
  const text = answer.text();
  await setImmediate();
  const growing = await site.openLog();
  growing.append("one\n");
  await growing.drained();
  growing.append("two\n");
  await site.settle(site.run, PASSED);
  growing.append("the last word\n");
  await site.context.runLogs.close(1);
  expect(await text).toBe("one\ntwo\nthe last word\n");
});

test("a follower of a run that ends without a log is done", async () => {
  const site = await running();
  const text = (await log(site, "?follow=true")).text();
  await setImmediate();
  await site.settle(site.run, PASSED);
  // Wakes the follower as any log would, so that the test need not wait until it looks again by itself.
  site.context.runLogs.opened.notify();
  expect(await text).toBe("");
});

test("followers end when the service stops", async () => {
  const site = await running();
  const growing = await site.openLog();
  growing.append("one\n");
  await growing.drained();
  const text = (await log(site, "?follow=true")).text();
  while (growing.changed.waiting === 0) await setImmediate();
  site.stopping.abort();
  expect(await text).toBe("one\n");
  await site.context.runLogs.close(1);
});

test("a follower that goes away leaves nothing behind", async () => {
  const site = await running();
  const growing = await site.openLog();
  const reader = (await log(site, "?follow=true")).body!.getReader();
  const reading = reader.read();
  while (growing.changed.waiting === 0) await setImmediate();
  await reader.cancel();
  await reading;
  expect(growing.changed.waiting).toBe(0);
  await site.context.runLogs.close(1);
});

test("HEAD says what GET would, and follows nothing", async () => {
  const site = await running();
  const growing = await site.openLog();
  const answer = await site.app.request("/runs/1/log?follow=true", { method: "HEAD" });
  expect([answer.status, await answer.text()]).toEqual([200, ""]);
  expect(growing.changed.waiting).toBe(0);
  await site.context.runLogs.close(1);
});
