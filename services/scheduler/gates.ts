import type { GateReading } from "@orchestrator/shared/artifact.ts";
import { workItemFolder } from "@orchestrator/shared/domain.ts";
import type { Stage } from "@orchestrator/shared/pipeline.ts";

/** The stage whose outcome is code: an artifact alone is not enough there. */
const DEVELOPMENT_STAGE = "development";

/** Whether the branch must differ from its base in code when the stage has passed. */
export const mustChangeCode = ({ name, writes }: Pick<Stage, "name" | "writes">): boolean =>
  name === DEVELOPMENT_STAGE && writes === "code";

/** What a run of a stage has left, as far as it decides about the attempt. */
export interface StageWork {
  stage: Stage;
  workItemId: string;
  reading: GateReading;
  /** Every path that differs between the run's start and its commit. */
  changedPaths: readonly string[];
  /** Whether the branch differs from its base outside `docs/work-items/`; read only where the stage must change code. */
  differsFromBase: boolean;
}

export type Judgement =
  | { kind: "pass" }
  /** The work was judged and turned down. `to`: a stage's name or `blocked`. */
  | { kind: "fail"; value: string; to: string; reason: string }
  /** There is no verdict that counts; the attempt is repeated while there are attempts left. */
  | { kind: "failed_attempt"; reason: string };

/**
 * What the work of a stage means for its attempt. A stage that may only document is held to it whatever its verdict: what it
 * slipped into the code would go on unreviewed.
 */
export const judgeStage = ({ stage, workItemId, reading, changedPaths, differsFromBase }: StageWork): Judgement => {
  const folder = `${workItemFolder(workItemId)}/`;
  const outside = stage.writes === "docs" ? changedPaths.filter((path) => !path.startsWith(folder)) : [];
  if (outside.length > 0) {
    return {
      kind: "failed_attempt",
      reason: `the stage ${stage.name} may change only ${folder}, but it changed ${listPaths(outside)}`,
    };
  }
  switch (reading.kind) {
    case "unreadable":
      return { kind: "failed_attempt", reason: reading.reason };
    case "fail":
      return {
        kind: "fail",
        value: reading.value,
        to: reading.onFail,
        reason: `${stage.gate?.key ?? stage.name} is ${reading.value}`,
      };
    case "pass":
      return mustChangeCode(stage) && !differsFromBase
        ? {
            kind: "failed_attempt",
            reason: `the branch does not differ from its base outside docs/work-items/: the stage ${stage.name} must change code`,
          }
        : { kind: "pass" };
  }
};

const MAX_LISTED = 5;

/** Paths for people. One may hold anything but NUL: what would not read as a plain word is quoted. */
export const listPaths = (paths: readonly string[]): string => {
  const listed = paths.slice(0, MAX_LISTED).map((path) => (/^[\w./@+-]+$/.test(path) ? path : JSON.stringify(path)));
  const more = paths.length - listed.length;
  return listed.join(", ") + (more > 0 ? ` and ${more} more` : "");
};
