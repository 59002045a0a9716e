import type { GateReading } from "@orchestrator/shared/artifact.ts";
import type { Stage } from "@orchestrator/shared/pipeline.ts";

export interface StageWork {
  stage: Stage;
  workItemId: string;
  reading: GateReading;
  /** Every path that differs between the run's start and its commit. */
  changedPaths: readonly string[];
  /** Whether the commit differs from the base branch outside `docs/work-items/`. */
  differsFromBase: boolean;
}

export type Judgement =
  | { kind: "pass" }
  | { kind: "fail"; value: string /** A stage's name or `blocked`. */; to: string; reason: string }
  | { kind: "failed_attempt"; reason: string };

export function judgeStage(_work: StageWork): Judgement {
  throw new Error("not yet");
}
