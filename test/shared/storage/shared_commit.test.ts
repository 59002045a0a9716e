import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { expect, test } from "vitest";
import { insertTaskWithJob } from "../../helpers/insert.ts";
import { openTestStorage } from "../../helpers/storage.ts";

test("of writes that wait together each is kept or undone by itself, and each hears of its own commit", async () => {
  const { storage } = await openTestStorage();
  const told: string[] = [];
  storage.onCommitted(({ events }) => told.push(...events.map((event) => String(event.detail.mark))));
  const mark = (workItemId: string) =>
    storage.write((tx) => tx.event("created", { taskId: null }, { mark: workItemId }).then(() => workItemId));
  const answers = await Promise.allSettled(
    Array.from({ length: 200 }, async (_, n) => {
      if (n % 10 !== 3) return mark(`w${n}`);
      return storage.write(async (tx) => {
        await tx.event("created", { taskId: null }, { mark: `undone ${n}` });
        throw new Error(`no ${n}`);
      });
    }),
  );
  const kept = Array.from({ length: 200 }, (_, n) => n).filter((n) => n % 10 !== 3);
  expect(answers.map((answer) => (answer.status === "fulfilled" ? answer.value : String(answer.reason)))).toEqual(
    Array.from({ length: 200 }, (_, n) => (n % 10 === 3 ? `Error: no ${n}` : `w${n}`)),
  );
  const rows = await storage.query<{ mark: string }>("SELECT detail ->> 'mark' AS mark FROM task_events ORDER BY id");
  expect(rows.map((row) => row.mark)).toEqual(kept.map((n) => `w${n}`));
  expect(told).toEqual(kept.map((n) => `w${n}`));
});

test("a write that breaks a constraint does not take the others with it", async () => {
  const { storage } = await openTestStorage();
  await insertTaskWithJob(storage, { workItemId: "first" });
  const again = () => storage.write((tx) => tx.run("UPDATE tasks SET status = 'nonsense'"));
  const answers = await Promise.allSettled([
    insertTaskWithJob(storage, { workItemId: "second" }),
    again(),
    insertTaskWithJob(storage, { workItemId: "third" }),
    again(),
  ]);
  expect(answers.map((answer) => answer.status)).toEqual(["fulfilled", "rejected", "fulfilled", "rejected"]);
  expect(await storage.query("SELECT work_item_id, status FROM tasks ORDER BY id")).toEqual(
    ["first", "second", "third"].map((workItemId) => ({ workItemId, status: "active" })),
  );
});

test("a write asked for in the answer of another is done as well", async () => {
  const { storage } = await openTestStorage();
  let last = 0;
  for (let n = 1; n <= 50; n++) last = await storage.write(async () => n);
  await storage.write(async () => 0).then(() => storage.write(async () => 0));
  expect(last).toBe(50);
});

test("what was asked for before a close is written", async () => {
  const { storage, url } = await openTestStorage();
  const written = insertTaskWithJob(storage, { workItemId: "last" });
  await storage.close();
  await written;
  const reader = await openReadOnly(url, null);
  expect(await reader.query("SELECT work_item_id FROM tasks")).toEqual([{ workItemId: "last" }]);
  await reader.close();
});
