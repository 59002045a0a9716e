import { OUTCOMES } from "@orchestrator/shared/domain.ts";
import { nextStageName, type Pipeline } from "@orchestrator/shared/pipeline.ts";
import type { Committed, EndedRun } from "@orchestrator/shared/storage/committed.ts";
import { Counter, Histogram, type Registry } from "prom-client";
import type { ActiveRuns } from "../active_runs.ts";

/** Upper bounds in seconds. An agent works for minutes or hours, a refused launch for less than a second. */
const RUN_BUCKETS = [1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400];
/** Git and a push: seconds; the default limit of a finalizer is 900 s. */
const FINALIZE_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900];
/** Milliseconds where a slot is free, hours where the queue is full or paused. */
const PICKUP_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400];

/**
 * What has happened to runs and stages since this process started, from what each commit says of itself. Nothing is counted
 * before it is in the database, and nothing twice.
 */
export class RunMetrics {
  readonly #activeRuns: ActiveRuns;
  readonly #transitions: Counter<"from" | "to">;
  readonly #runs: Counter<"agent" | "stage" | "outcome">;
  readonly #runSeconds: Histogram;
  readonly #finalizeSeconds: Histogram;
  readonly #pickupSeconds: Histogram;

  constructor(registry: Registry, { pipeline, activeRuns }: { pipeline: Pipeline; activeRuns: ActiveRuns }) {
    const registers = [registry];
    this.#activeRuns = activeRuns;
    this.#transitions = new Counter({
      name: "orchestrator_stage_transitions_total",
      help: "Stages that tasks have left for another, forwards and backwards.",
      labelNames: ["from", "to"],
      registers,
    });
    this.#runs = new Counter({
      name: "orchestrator_runs_total",
      help: "Runs whose outcome was recorded.",
      labelNames: ["agent", "stage", "outcome"],
      registers,
    });
    this.#runSeconds = new Histogram({
      name: "orchestrator_run_duration_seconds",
      help: "From the claim of a job to the recorded outcome of the run.",
      buckets: RUN_BUCKETS,
      registers,
    });
    this.#finalizeSeconds = new Histogram({
      name: "orchestrator_finalize_duration_seconds",
      help: "From the end of a run's worker to its recorded outcome: collecting, reading the gate, pushing, settling.",
      buckets: FINALIZE_BUCKETS,
      registers,
    });
    this.#pickupSeconds = new Histogram({
      name: "orchestrator_job_pickup_seconds",
      help: "From the moment at which a job was due to its claim.",
      buckets: PICKUP_BUCKETS,
      registers,
    });
    this.#beginAtZero(pipeline);
  }

  committed({ events, begun, ended }: Committed): void {
    for (const { dueForMs } of begun) this.#pickupSeconds.observe(dueForMs / 1000);
    for (const run of ended) this.#ended(run);
    for (const { kind, detail } of events) {
      if (kind !== "advanced" && kind !== "returned") continue;
      this.#transitions.inc({ from: String(detail["from"]), to: String(detail["to"]) });
    }
  }

  #ended({ jobId, runId, agent, stage, outcome }: EndedRun): void {
    this.#runs.inc({ agent, stage, outcome });
    const active = this.#activeRuns.get(jobId);
    // A run that an earlier process began has no beginning on this one's clock.
    if (active?.claim.run.id !== runId) return;
    this.#runSeconds.observe(active.ageMs() / 1000);
    if (active.phase === "finalizing") this.#finalizeSeconds.observe(active.phaseAgeMs() / 1000);
  }

  /** A series that appears with its first increase hides that increase: what the pipeline foresees is there from the start. */
  #beginAtZero(pipeline: Pipeline): void {
    for (const { name: stage, agent, gate } of pipeline.stages) {
      for (const outcome of OUTCOMES) this.#runs.inc({ agent, stage, outcome }, 0);
      this.#transitions.inc({ from: stage, to: nextStageName(pipeline, stage) }, 0);
      if (gate !== null && gate.onFail !== "blocked") this.#transitions.inc({ from: stage, to: gate.onFail }, 0);
    }
  }
}
