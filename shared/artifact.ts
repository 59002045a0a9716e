import type { Stage } from "./pipeline.ts";

/** What stands at a path of a commit. `mode` is git's (`120000` a link, `160000` a submodule, `040000` a directory). */
export type CommittedFile =
  | { kind: "file"; content: Uint8Array }
  | { kind: "missing" }
  | { kind: "not_regular"; mode: string }
  | { kind: "too_large"; bytes: number };

export interface ArtifactExpectation {
  workItemId: string;
  stage: Stage;
  /** The staging runner's own run and the commit it tested; left out where an agent worked the stage. */
  runId?: number;
  commit?: string;
}

export type GateReading =
  | { kind: "pass"; value: string | null }
  | { kind: "fail"; value: string; onFail: string }
  | { kind: "unreadable"; reason: string };

export function readGate(_file: CommittedFile, _expectation: ArtifactExpectation): GateReading {
  throw new Error("not yet");
}

export function parseStagingStatus(_content: string | Uint8Array): "SUCCESS" | "FAILED" | null {
  throw new Error("not yet");
}
