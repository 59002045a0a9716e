import { isoTime } from "@orchestrator/shared/clock.ts";
import { DATABASE } from "@orchestrator/shared/outcome_class.ts";
import type { StagingRunRequest } from "@orchestrator/shared/schemas/staging_run.ts";
import type { StagingJob } from "@orchestrator/shared/storage/read_staging_job.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { EventStream } from "./event_stream.ts";
import { type ReadJob, whyNotThisRun } from "./staging_job.ts";
import { runStaging, type StagingRunnerDeps } from "./staging_runner.ts";

/** The contract asks for a heartbeat at least every 5 s. */
const HEARTBEAT_MS = 4000;
const REREAD_MS = 5000;
/** So many reads in a row may fail before the run is given up: nobody can tell any more whether it is still wanted. */
const MAX_FAILED_READS = 6;

export interface ActiveRunsDeps extends StagingRunnerDeps {
  readJob: ReadJob;
  /** @default 4000 */
  heartbeatMs?: number;
  /** @default 5000 */
  rereadMs?: number;
}

/** One run that is being worked, as `GET /queue` shows it. */
export interface ActiveRun extends StagingRunRequest {
  work_item_id: string;
  /** The step that runs now; null before the first. */
  step: string | null;
  started_at: string;
}

interface Entry {
  view: ActiveRun;
  abort: AbortController;
  done: Promise<void>;
}

/** The runs that this stager works now. A run lives as long as its connection and its job. */
export class ActiveRuns {
  readonly #deps: ActiveRunsDeps;
  readonly #entries = new Map<number, Entry>();
  #stopping = false;

  constructor(deps: ActiveRunsDeps) {
    this.#deps = deps;
  }

  list(): ActiveRun[] {
    return [...this.#entries.values()].map(({ view }) => ({ ...view }));
  }

  /** True once `stop` has been called: no run may be started any more. */
  get stopping(): boolean {
    return this.#stopping;
  }

  has(runId: number): boolean {
    return this.#entries.has(runId);
  }

  /**
   * Begins a run, which must not be active already.
   * @param left aborts when whoever asked has gone.
   * @returns its events as they come; a reader that leaves ends the run.
   */
  start(request: StagingRunRequest, job: StagingJob, instanceId: string): ReadableStream<Uint8Array> {
    const abort = new AbortController();
    const leave = (): void => abort.abort(new ToolError("client_gone", "whoever asked for the run has left"));
    const stream = new EventStream(leave);
    const view: ActiveRun = {
      ...request,
      work_item_id: job.workItemId,
      step: null,
      started_at: isoTime(this.#deps.clock.now()),
    };
    const done = this.#work(request, job, instanceId, view, abort, stream)
      // A stream that ends without a result is what the scheduler knows as a lost stager.
      .catch((error: unknown) => this.#deps.log.error({ err: error, ...request }, "staging run ended without a result"))
      .finally(() => {
        this.#entries.delete(request.run_id);
        stream.end();
      });
    this.#entries.set(request.run_id, { view, abort, done });
    return stream.body;
  }

  /** Takes no more runs and ends all there are: each gets its teardown and the result `tool_error`. Resolves when they have ended. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const entries = [...this.#entries.values()];
    for (const { abort } of entries) abort.abort(new ToolError("stager_stopped", "the stager was stopped"));
    await Promise.all(entries.map(({ done }) => done));
  }

  async #work(
    request: StagingRunRequest,
    job: StagingJob,
    instanceId: string,
    view: ActiveRun,
    abort: AbortController,
    stream: EventStream,
  ): Promise<void> {
    const { clock, log, points, heartbeatMs = HEARTBEAT_MS } = this.#deps;
    await points.reach("run.begun", request.run_id);
    log.info({ ...request, workItemId: job.workItemId, commit: job.head }, "staging run started");
    const heartbeat = setInterval(() => stream.push({ event: "heartbeat", at: isoTime(clock.now()) }), heartbeatMs);
    const stopWatching = this.#watch(request, abort);
    try {
      const result = await runStaging(this.#deps, {
        request,
        job,
        instanceId,
        signal: abort.signal,
        emit: (event) => {
          if (event.event === "step") view.step = event.state === "started" ? event.name : view.step;
          stream.push(event);
        },
      });
      await points.reach("result.before", request.run_id);
      stream.push(result);
      await points.reach("result.after", request.run_id);
      const { verdict, class: errorClass, action, reason } = result;
      log.info({ ...request, verdict, class: errorClass, action, reason }, "staging run ended");
    } finally {
      clearInterval(heartbeat);
      stopWatching();
    }
  }

  /** Reads the job again and again, and gives the run up when it is no longer this run's. */
  #watch(request: StagingRunRequest, abort: AbortController): () => void {
    const { readJob, log, rereadMs = REREAD_MS } = this.#deps;
    let failures = 0;
    let reading = false;
    const look = async (): Promise<void> => {
      try {
        const why = whyNotThisRun(await readJob(request), request);
        failures = 0;
        if (why !== null) abort.abort(new ToolError("superseded", why));
      } catch (error) {
        failures += 1;
        log.warn({ err: error, ...request, failures }, "the job could not be read again");
        if (failures < MAX_FAILED_READS) return;
        const reason = error instanceof Error ? error.message : String(error);
        abort.abort(new ToolError(DATABASE, `the job could not be read again ${failures} times in a row: ${reason}`));
      }
    };
    const timer = setInterval(() => {
      if (reading) return;
      reading = true;
      void look().finally(() => {
        reading = false;
      });
    }, rereadMs);
    return () => clearInterval(timer);
  }
}
