import { ChangeSignal } from "@orchestrator/shared/change_signal.ts";
import { type GrowingLog, openRunLog } from "./run_log.ts";

/** The logs that are being written now, by run: who wants to read one while it grows finds it here. */
export class RunLogs {
  readonly #logs = new Map<number, GrowingLog>();
  /** Tells of each log that is opened. */
  readonly opened = new ChangeSignal();
  readonly #onClosed: (bytes: number) => void;

  /** @param onClosed told how long each log is that has come to its end. */
  constructor(onClosed: (bytes: number) => void = () => {}) {
    this.#onClosed = onClosed;
  }

  /** @throws {ToolError} `no_space`, or `run_log` for any other reason. */
  async open(runId: number, options: { path: string; maxBytes: number }): Promise<GrowingLog> {
    const log = await openRunLog(options);
    this.#logs.set(runId, log);
    this.opened.notify();
    return log;
  }

  get(runId: number): GrowingLog | undefined {
    return this.#logs.get(runId);
  }

  /**
   * Writes the run's log to its end and closes it, if it was opened.
   * @throws {ToolError} where it could not be written.
   */
  async close(runId: number): Promise<void> {
    const log = this.#logs.get(runId);
    if (!log) return;
    try {
      await log.close();
    } finally {
      this.#logs.delete(runId);
      this.#onClosed(log.layout.size);
    }
  }
}
