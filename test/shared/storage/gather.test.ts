import { LibsqlError } from "@libsql/client";
import { gather } from "@orchestrator/shared/storage/gather.ts";
import { insertTasks, type NewTaskRow } from "@orchestrator/shared/storage/insert_task.ts";
import { expect, test } from "vitest";
import { failNextCommit, unreachable } from "../../helpers/failing_commits.ts";
import { openTestStorage } from "../../helpers/storage.ts";

const aTask = (workItemId: string, over: Partial<NewTaskRow> = {}): NewTaskRow => ({
  ...{ workItemId, title: "A title", description: "", repo: "shop", branch: `work/${workItemId}`, baseBranch: "main" },
  ...{ priority: 0, stage: "analysis", status: "active" },
  ...over,
});

const numbers = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

/** A gathered write of marks; `bad` fails. */
const marks = async () => {
  const { storage } = await openTestStorage();
  const sizes: number[] = [];
  const mark = gather(storage, async (tx, items: readonly string[]) => {
    sizes.push(items.length);
    if (items.includes("bad")) throw new Error("this one is bad");
    await tx.eventOfEach(
      "created",
      items.map((item) => ({ taskId: null as unknown as number, detail: { item } })),
    );
    return items.map((item) => `${item} is written`);
  });
  const stored = async () =>
    (await storage.query<{ item: string }>("SELECT detail ->> 'item' AS item FROM task_events ORDER BY id")).map(
      ({ item }) => item,
    );
  return { storage, sizes, mark, stored };
};

test("those who wait together are written together, and each gets its own answer", async () => {
  const { sizes, mark, stored } = await marks();
  const items = numbers(300).map(String);
  expect(await Promise.all(items.map(mark))).toEqual(items.map((item) => `${item} is written`));
  expect(await stored()).toEqual(items);
  expect(sizes).toEqual([128, 128, 44]);
});

test("one that comes while others are written goes with the next ones", async () => {
  const { sizes, mark, stored } = await marks();
  const first = mark("first");
  const later = first.then(() => Promise.all([mark("second"), mark("third")]));
  await Promise.all([first, later]);
  expect(await stored()).toEqual(["first", "second", "third"]);
  expect(sizes).toEqual([1, 2]);
});

test("one that fails fails alone", async () => {
  const { mark, stored } = await marks();
  const answers = await Promise.allSettled(["a", "bad", "b"].map(mark));
  expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect((await stored()).sort()).toEqual(["a", "b"]);
});

test("where the answer to their commit is lost, each is told that nobody knows, and none is written again", async () => {
  const { storage } = await openTestStorage();
  const insert = gather(storage, insertTasks);
  failNextCommit(unreachable(), { made: true });
  const answers = await Promise.allSettled([insert(aTask("A")), insert(aTask("B"))]);
  expect(answers.map((answer) => (answer as PromiseRejectedResult).reason?.code ?? answer)).toEqual(
    Array(2).fill("storage_unreachable"),
  );
  expect(await storage.query("SELECT work_item_id FROM tasks ORDER BY id")).toEqual([
    { workItemId: "A" },
    { workItemId: "B" },
  ]);
});

test.each([
  ["a full disk", new LibsqlError("database or disk is full", "SQLITE_FULL")],
  ["a server that cannot be reached", unreachable()],
])("%s refuses all who wait at once: it is nobody's fault among them", async (_what, error) => {
  const { storage } = await openTestStorage();
  const sizes: number[] = [];
  const mark = gather(storage, async (_tx, items: readonly string[]): Promise<string[]> => {
    sizes.push(items.length);
    throw error;
  });
  const answers = await Promise.allSettled(["a", "b", "c"].map(mark));
  expect(answers.map((answer) => (answer as PromiseRejectedResult).reason)).toEqual([error, error, error]);
  expect(sizes).toEqual([3]);
});

test("an error of the commit that nobody foresaw is no reason to write any of them again", async () => {
  const { sizes, mark, stored } = await marks();
  failNextCommit(new Error("nobody foresaw this"), { made: true });
  const answers = await Promise.allSettled(["a", "b"].map(mark));
  expect(answers.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(sizes).toEqual([2]);
  expect(await stored()).toEqual(["a", "b"]);
});

test("a scheduler that was superseded refuses all who wait, and writes nothing", async () => {
  const { storage, sizes, mark, stored } = await marks();
  await storage.write((tx) => tx.run("UPDATE scheduler_lease SET epoch = epoch + 1"));
  const answers = await Promise.allSettled(["a", "b", "c"].map(mark));
  expect(answers.map((answer) => (answer as PromiseRejectedResult).reason.code)).toEqual(Array(3).fill("fenced_off"));
  expect(sizes).toEqual([]);
  expect(await stored()).toEqual([]);
});

test("of tasks that are written together the first of a name, and the first on a branch, is taken", async () => {
  const { storage } = await openTestStorage();
  await storage.write((tx) => insertTasks(tx, [aTask("OLD")]));
  const results = await storage.write((tx) =>
    insertTasks(tx, [
      aTask("A"),
      aTask("A"),
      aTask("B", { branch: "work/A" }),
      // Refused for its branch, so the one after it, of the same name, is the first.
      aTask("C", { branch: "work/OLD" }),
      aTask("C"),
      aTask("OLD", { branch: "work/OLD2" }),
      aTask("D", { repo: "web", branch: "work/A" }),
    ]),
  );
  const outcome = results.map((result) => (result.kind === "inserted" ? result.task.branch : result));
  expect(outcome).toEqual([
    "work/A",
    { kind: "work_item_exists" },
    { kind: "branch_taken", by: "A" },
    { kind: "work_item_exists" },
    "work/C",
    { kind: "work_item_exists" },
    "work/A",
  ]);
  const stored = await storage.query("SELECT id, work_item_id, repo, branch FROM tasks WHERE id > 1 ORDER BY id");
  const answered = results.flatMap((result) => (result.kind === "inserted" ? [result.task] : []));
  expect(stored).toEqual(answered.map(({ id, workItemId, repo, branch }) => ({ id, workItemId, repo, branch })));
  expect(storage.tally.tasksByStatus().active).toBe(4);
});

test("text comes through the statement as it is", async () => {
  const { storage } = await openTestStorage();
  const description = `"quoted" \\ back\\u0041 \t\n'' €😀 \u2028 {"a":1} [1] 1.0 null ${"x".repeat(70_000)}`;
  const [result] = await storage.write((tx) => insertTasks(tx, [aTask("A", { title: "1.0", description })]));
  const [row] = await storage.query("SELECT title, description FROM tasks");
  expect(row).toEqual({ title: "1.0", description });
  expect(result).toMatchObject({ task: { title: "1.0", description } });
});
