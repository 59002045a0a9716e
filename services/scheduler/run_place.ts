import { FOREIGN_COMMIT } from "@orchestrator/shared/outcome_class.ts";
import { artifactPath, type Stage } from "@orchestrator/shared/pipeline.ts";
import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import { recordHead } from "@orchestrator/shared/storage/record_head.ts";
import type { ActiveRun } from "./active_runs.ts";
import type { Mirror } from "./git/mirror.ts";
import { setAside } from "./git/set_aside.ts";
import { startCommit } from "./git/start_commit.ts";
import { type Fence, holdOf, ownRunOf, type RunContext, writingIn } from "./run_context.ts";
import type { RunResult } from "./run_result.ts";
import { writeSurely } from "./write_surely.ts";

/** Where a run's work stands, for those who finalize it. */
export interface RunPlace {
  mirror: Mirror;
  stage: Stage;
  /** The commit that the run starts from, and that its work must descend from. */
  start: string;
  /** Path of the stage's artifact in the repository. */
  artifact: string;
}

/**
 * Fetches the repository, sees to it that nothing in the mirror passes for this run's, and finds the commit that it starts
 * from, or why it cannot start. The place is recorded as the task's head where it is not that already (before the first
 * settle, and where a push of the task's own is adopted), so that everybody who works on the task from here on means the same
 * commit.
 */
export const findPlace = async (
  context: RunContext,
  run: ActiveRun,
  stage: Stage,
): Promise<{ kind: "place"; place: RunPlace } | { kind: "refused"; result: RunResult }> => {
  const { git, mirrors, storage, points, log } = context;
  const { task, job } = run.claim;
  const { signal } = run;
  const mirror = mirrors.get(task.repo);
  await points.reach("fetch.before", job.id);
  const work = async (fence: Fence): Promise<void> => {
    await mirror.fetch({ signal });
    const aside = await setAside({ git, mirror, runId: run.claim.run.id, fence, signal });
    if (aside.length > 0)
      log.warn(
        { ...holdOf(run), refs: aside },
        "another run of this number had left work in the mirror; it was set aside",
      );
    await tidy(context, run, mirror, fence);
  };
  await writingIn(context, mirror, work, { signal, onWait: (waiting) => run.waits(waiting) });
  await points.reach("fetch.after", job.id);
  const begin = await startCommit({
    git,
    mirror,
    branch: task.branch,
    baseBranch: task.baseBranch,
    head: task.head,
    ownRun: ownRunOf(storage, task.id),
    signal,
  });
  if (begin.kind === "foreign") return { kind: "refused", result: movedByOthers(task.branch, begin) };
  const start = begin.commit;
  if (start !== task.head) {
    const write = () => storage.write((tx) => recordHead(tx, holdOf(run), start));
    await writeSurely(write, { what: "head", log, signal, onWait: (waiting) => run.waits(waiting) });
  }
  const place = { mirror, stage, start, artifact: artifactPath(stage, task.workItemId) };
  return { kind: "place", place };
};

/**
 * Packs what weeks of fetches and runs have piled up, when enough has; two look-ups otherwise. It is no part of the launch: it
 * takes none of its time, and what hinders it, short of the loss of the fence, does not end it.
 */
const tidy = async ({ log }: RunContext, run: ActiveRun, mirror: Mirror, fence: Fence): Promise<void> => {
  run.waits(true);
  try {
    await fence();
    await mirror.tidy({ signal: run.signal });
  } catch (error) {
    if (run.signal.aborted || error instanceof FencedOffError) throw error;
    log.warn(
      { err: error, repo: mirror.name, ...holdOf(run) },
      "a mirror could not be tidied up; the next launch tries again",
    );
    await mirror.clearStaleLocks();
  } finally {
    run.waits(false);
  }
};

/** The result of a run whose branch somebody else has moved. */
export const movedByOthers = (branch: string, { sha, author }: { sha: string; author: string }): RunResult => ({
  kind: "needs_person",
  class: FOREIGN_COMMIT,
  reason:
    `the branch ${branch} on the remote stands at ${sha.slice(0, 12)} by ${author}, which is no commit of this task. ` +
    "Take that commit off the branch (what is to stay of it belongs into the base branch), then retry",
});
