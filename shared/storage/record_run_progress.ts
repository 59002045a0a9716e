import type { EventKind } from "../domain.ts";
import type { EventDetail, Run } from "../schemas/rows.ts";
import type { JobHold } from "./end_job.ts";
import type { Tx } from "./tx.ts";

/**
 * Records that the run's agent is about to be started. From here on it may have run, whatever becomes of this process before
 * the start itself is recorded.
 */
export const recordStarting = async (tx: Tx, { runId }: JobHold): Promise<void> => {
  await tx.run("UPDATE agent_runs SET pid_started = 0 WHERE id = ? AND outcome IS NULL", [runId]);
};

/** Takes that back where the start has failed: the run's agent was never there. */
export const recordNotStarted = async (tx: Tx, { runId }: JobHold): Promise<void> => {
  await tx.run("UPDATE agent_runs SET pid_started = NULL WHERE id = ? AND pid IS NULL AND outcome IS NULL", [runId]);
};

/** Whether the agent of a run may have been started and was not seen to exit 0 of itself: the next attempt would run it again. */
export const mayRunAgain = (run: Pick<Run, "pidStarted" | "exitCode" | "signal">): boolean =>
  run.pidStarted !== null && !(run.exitCode === 0 && run.signal === null);

/**
 * Records that the run's worker has been started: a process of this machine, or (pid null) the stager. May be called again
 * after an error whose effect is unknown.
 */
export const recordStarted = async (
  tx: Tx,
  hold: JobHold,
  process: { pid: number; started: number } | null,
  detail: EventDetail,
): Promise<void> => {
  if (await isInHistory(tx, hold, "started")) return;
  await tx.run("UPDATE agent_runs SET pid = ?, pid_started = ? WHERE id = ? AND outcome IS NULL", [
    process?.pid ?? null,
    process?.started ?? null,
    hold.runId,
  ]);
  await tx.event("started", hold, detail);
};

/**
 * Records that the run's agent has exited, before anything is made of it: an exit 0 is never paid for twice. May be called
 * again after an error whose effect is unknown.
 */
export const recordExited = async (
  tx: Tx,
  hold: JobHold,
  exit: { code: number | null; signal: string | null },
): Promise<void> => {
  if (await isInHistory(tx, hold, "exited")) return;
  await tx.run("UPDATE agent_runs SET exit_code = ?, signal = ?, exited_at = ? WHERE id = ? AND outcome IS NULL", [
    exit.code,
    exit.signal,
    tx.now,
    hold.runId,
  ]);
  await tx.event("exited", hold, { exit_code: exit.code, signal: exit.signal });
};

const isInHistory = async (tx: Tx, { taskId, runId }: JobHold, kind: EventKind): Promise<boolean> => {
  const rows = await tx.query("SELECT 1 FROM task_events WHERE task_id = ? AND run_id = ? AND kind = ? LIMIT 1", [
    taskId,
    runId,
    kind,
  ]);
  return rows.length > 0;
};
