import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findMarked } from "@orchestrator/shared/process/find_processes.ts";
import { expect, test } from "vitest";
import { git } from "../../helpers/git.ts";
import { makeDue, onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";

const isOver = ({ task }: { task: { status: string } }) => task.status !== "active";

const COMMIT = "git -c user.name=Dev -c user.email=dev@example.com commit -qm";

/** What a first attempt does before its duty, and what becomes of it; the second attempt is an honest one. */
const WAYS: Record<string, { script: string; first: "succeeded" | "failed"; branchHas?: string[]; kept?: string[] }> = {
  "deletes its workspace": { script: 'rm -rf "$PWD"; exit 99', first: "failed" },
  "deletes all that is in it": { script: "rm -rf ./* .git; exit 99", first: "failed" },
  "puts a file in its workspace's place": {
    script: 'd=$PWD; cd ..; rm -rf "$d"; echo x >"$d"; exit 99',
    first: "failed",
  },
  "puts a link in its workspace's place": {
    script: 'd=$PWD; cd ..; mv "$d" "$AGENT_HOOKS/moved"; ln -s "$AGENT_HOOKS/moved" "$d"; exit 99',
    first: "failed",
  },
  "takes all rights away": {
    script: "mkdir -p deep/er; echo x >deep/er/f; chmod 000 deep/er/f deep/er deep; exit 1",
    first: "failed",
  },
  "commits on a branch of its own": {
    script: `git checkout -q -b elsewhere; echo x >on_elsewhere.txt; git add -A; ${COMMIT} mine; exit 0`,
    first: "succeeded",
    branchHas: ["on_elsewhere.txt", "code.txt"],
  },
  "leaves its HEAD detached": {
    script: `git checkout -q --detach; echo x >detached.txt; git add -A; ${COMMIT} mine; exit 0`,
    first: "succeeded",
    branchHas: ["detached.txt"],
  },
  "commits on another branch and goes back": {
    script: `git checkout -q -b aside; echo x >aside.txt; git add -A; ${COMMIT} aside; git checkout -q -; exit 0`,
    first: "succeeded",
    kept: ["aside.txt"],
  },
  "begins a history of its own": {
    script: `git checkout -q --orphan fresh; echo x >fresh.txt; git add -A; ${COMMIT} fresh; exit 0`,
    first: "failed",
    kept: ["fresh.txt"],
  },
  "takes commits back": { script: "git update-ref -d HEAD; exit 0", first: "failed" },
  "leaves a submodule and a nested repository": {
    script: `git init -q inner && (cd inner && echo x >in.txt && git add -A && ${COMMIT} inner) && git init -q sub && (cd sub && echo y >in_sub.txt && git add -A && ${COMMIT} sub) && git add sub 2>/dev/null; exit 0`,
    first: "succeeded",
  },
  "leaves a merge half done": {
    script: `git checkout -q -b a; echo a >code.txt; git add -A; ${COMMIT} a; git checkout -q -; echo b >code.txt; git add -A; ${COMMIT} b; git merge a >/dev/null 2>&1; exit 0`,
    first: "succeeded",
  },
  "leaves its index locked and broken": {
    script: ": >.git/index.lock; echo nonsense >.git/index; exit 0",
    first: "succeeded",
  },
  "makes its git directory bare and worktree another's": {
    script: "git config core.bare true; git config core.worktree /; exit 0",
    first: "succeeded",
  },
  "leaves names that are no text": {
    script: `printf 'x' >"$(printf 'bad\\377name')"; printf 'y' >"$(printf 'new\\nline')"; exit 0`,
    first: "succeeded",
  },
  "leaves pipes, sockets and links that lead nowhere or round": {
    script: "mkfifo pipe; ln -s loop loop; ln -s /nowhere gone; ln -s / root; exit 0",
    first: "succeeded",
  },
  "puts pipes where git reads": {
    script: "mkfifo .gitignore .gitattributes .gitmodules; mkdir below; mkfifo below/.gitignore; exit 0",
    first: "succeeded",
  },
  "puts a pipe in a file's place": { script: "rm code.txt; mkfifo code.txt; exit 1", first: "failed" },
  "nests folders deeper than a path can name": {
    script:
      "n=0; while [ $n -lt 300 ]; do mkdir ddddddddddddddd && cd ddddddddddddddd; n=$((n + 1)); done; echo x >f; exit 1",
    first: "failed",
  },
  "puts folders where the services keep their own files": {
    script:
      'id=$ORCH_WORK_ITEM_ID; mkdir "../.$id.making"; rm -f "../.$id.index"; mkdir "../.$id.index" "../.$id.index.lock"; exit 1',
    first: "failed",
  },
  "puts a link where the services keep their own files": {
    script: 'ln -s /nowhere/x "../.$ORCH_WORK_ITEM_ID.making"; exit 1',
    first: "failed",
  },
};

test.each(Object.entries(WAYS))("an agent that %s harms nobody", async (_, { script, first, branchHas, kept }) => {
  const site = await makeSite();
  await site.hook("development", `[ -e "$AGENT_HOOKS/tried" ] && exit 0\ntouch "$AGENT_HOOKS/tried"\n${script}\n`);
  const scheduler = await startTestScheduler(site, { config: onlyStages(site, "development") });
  await postTask(scheduler, { workItemId: "ORCH-1", stage: "development" });
  const seen = await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.outcome ?? null) !== null);
  expect(seen.runs[0]).toMatchObject({ outcome: first, outcomeClass: null });
  if (first === "failed") await makeDue(scheduler);

  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task).toMatchObject({ status: "done", blockedReason: null });
  expect(runs.map((run) => run.outcome)).toEqual(first === "failed" ? ["failed", "succeeded"] : ["succeeded"]);
  const files = (await git(site.remote, "ls-tree", "-r", "--name-only", task.head!)).split("\n");
  expect(files).toEqual(expect.arrayContaining(["code.txt", ...(branchHas ?? [])]));
  await git(site.remote, "merge-base", "--is-ancestor", "main", task.head!);
  const mirror = join(site.config.reposDir, "shop.git");
  const wip = `refs/orchestrator/wip/${runs[0]?.id}`;
  for (const path of kept ?? []) {
    const everything = await git(mirror, "log", "--format=", "--name-only", "-m", wip);
    expect(everything.split("\n")).toContain(path);
  }
  expect(scheduler.context.liveness.snapshot()).toEqual({});
});

test("an agent that leaves two hundred processes behind, of which some go on forking, leaves none", async () => {
  const site = await makeSite({ killGraceMs: 200 });
  await site.hook(
    "analysis",
    `n=0; while [ $n -lt 200 ]; do
  case $((n % 4)) in
    0) setsid sleep 600 & ;;
    1) env -i setsid sleep 600 & ;;
    2) (trap '' TERM; sleep 600) & ;;
    3) sleep 600 & ;;
  esac
  n=$((n + 1))
done
setsid sh -c 'trap "" TERM; while :; do sleep 0.01; done' &
setsid sh -c 'f() { sleep 0.02; f & exit 0; }; f' &
`,
  );
  const scheduler = await startTestScheduler(site, { config: onlyStages(site, "analysis") });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { task, runs } = await taskWhen(scheduler, "ORCH-1", isOver);
  expect(task.status).toBe("done");
  const marks = {
    instanceId: scheduler.context.instanceId,
    runId: runs[0]!.id,
    folder: join(site.config.workspacesDir, "ORCH-1"),
  };
  expect(findMarked(marks)).toEqual([]);
});

test("a hundred MiB of output go through a bounded log, whose end says what the agent said last", async () => {
  const site = await makeSite({ logMaxBytes: 256 * 1024 });
  const program = join(site.folder, "loud.sh");
  await writeFile(program, "head -c 104857600 /dev/zero | tr '\\0' 'x'; echo; echo the end; exit 3\n");
  const agents = { default: { ...site.config.agents.default!, command: ["/bin/sh", program] as [string, string] } };
  const scheduler = await startTestScheduler(site, { config: { agents } });
  await postTask(scheduler, { workItemId: "ORCH-1" });
  const { runs } = await taskWhen(scheduler, "ORCH-1", ({ runs }) => runs[0]?.outcome === "failed");
  await expect.poll(() => scheduler.context.runLogs.get(runs[0]!.id), { timeout: 20_000 }).toBeUndefined();
  const path = runs[0]!.logPath!;
  expect((await stat(path)).size).toBeLessThan(300 * 1024);
  expect((await readFile(path, "utf8")).trimEnd().endsWith("the end")).toBe(true);
});
