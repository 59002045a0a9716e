import type { Config } from "@orchestrator/shared/config/config.ts";
import type { Log } from "@orchestrator/shared/log.ts";
import { listRunning, type RunningJob } from "@orchestrator/shared/storage/list_running.ts";
import { recordExited } from "@orchestrator/shared/storage/record_run_progress.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { bringToDisk } from "./bring_to_disk.ts";
import { exitNotePath, hasExitNote, removeExitNote } from "./exit_notes.ts";
import type { RunContext } from "./run_context.ts";

interface NoteReader {
  storage: Storage;
  config: Pick<Config, "dataDir" | "workspacesDir">;
  log: Log;
}

/**
 * Records the exits that agents' keepers have noted and no scheduler lived to record: such a job goes on from the finalizer,
 * and its agent is not run again. Called when nothing of an earlier scheduler is alive any more, before its jobs are requeued.
 */
export const recordNotedExits = async (reader: NoteReader): Promise<void> => {
  for (const job of await listRunning(reader.storage)) await recordNotedExit(reader, job);
};

/** The same for one job. @returns the job as it stands then. */
export const recordNotedExit = async ({ storage, config, log }: NoteReader, job: RunningJob): Promise<RunningJob> => {
  const note = exitNotePath(config.dataDir, job.runId);
  const isRecorded = job.exitCode !== null || job.signal !== null;
  if (isRecorded || !(await hasExitNote(note))) return job;
  await bringToDisk(config.workspacesDir, log);
  await storage.write((tx) => recordExited(tx, job, { code: 0, signal: null }));
  await removeExitNote(note);
  return { ...job, exitCode: 0 };
};

/** Removes the note of a run of whose agent the database says all there is to say; one that stays behind says no other. */
export const forgetNote = async ({ config, log }: Pick<RunContext, "config" | "log">, runId: number): Promise<void> => {
  try {
    await removeExitNote(exitNotePath(config.dataDir, runId));
  } catch (error) {
    log.warn({ err: error, runId }, "the note of an agent's exit could not be removed");
  }
};
