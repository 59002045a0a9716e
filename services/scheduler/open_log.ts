import { stat } from "node:fs/promises";
import { findRun } from "@orchestrator/shared/storage/read_jobs.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { readFinishedLog, readGrowingLog } from "./read_run_log.ts";
import type { RunLogs } from "./run_logs.ts";
import type { LogQuery, LogResult } from "./scheduler_api.ts";

/** How often a follower looks whether a run that has no log yet has ended without one, in ms. */
const LOOK_AGAIN_MS = 1000;

interface LogDeps {
  storage: Pick<Storage, "query">;
  runLogs: RunLogs;
}

/** Finds the log of a run: one that is being written, a finished one, or (`follow`) one that is about to be begun. */
export const openLog = async (deps: LogDeps, runId: number, { tail, follow }: LogQuery): Promise<LogResult> => {
  const run = await findRun(deps.storage, runId);
  if (run === null) return { kind: "no_run" };
  const growing = deps.runLogs.get(runId);
  if (growing) return { kind: "log", read: (signal) => readGrowingLog(growing, { tail, follow, signal }) };
  const path = run.logPath;
  const hasFile = path !== null && (await isFile(path));
  if (run.outcome === null && !hasFile) {
    return { kind: "log", read: follow ? (signal) => readComingLog(deps, runId, { tail, signal }) : readNothing };
  }
  return hasFile ? { kind: "log", read: (signal) => readFinishedLog(path, { tail, signal }) } : { kind: "no_log" };
};

/** The log of a run that was claimed and has not opened it yet; nothing where it ends before. */
async function* readComingLog(
  { storage, runLogs }: LogDeps,
  runId: number,
  { tail, signal }: { tail: number | undefined; signal: AbortSignal },
): AsyncGenerator<Uint8Array, void> {
  while (!signal.aborted) {
    const growing = runLogs.get(runId);
    if (growing) return yield* readGrowingLog(growing, { tail, follow: true, signal });
    const run = await findRun(storage, runId);
    if (run === null || run.outcome !== null) return;
    await runLogs.opened.wait({ signal, timeoutMs: LOOK_AGAIN_MS });
  }
}

async function* readNothing(): AsyncGenerator<Uint8Array, void> {}

const isFile = async (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isFile(),
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return false;
      throw error;
    },
  );
