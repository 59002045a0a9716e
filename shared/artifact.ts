import { describeValue, type FrontmatterResult, MAX_ARTIFACT_BYTES, quote, readFrontmatter } from "./frontmatter.ts";
import { artifactPath, type Gate, STAGING_GATE, type Stage } from "./pipeline.ts";

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
  /** `value` is null where the stage has no gate key. */
  | { kind: "pass"; value: string | null }
  /** `onFail`: a stage's name or `blocked`. */
  | { kind: "fail"; value: string; onFail: string }
  /** Never a pass: the attempt has failed. The reason names the file, the line, what was found and what is accepted. */
  | { kind: "unreadable"; reason: string };

/** Every artifact's frontmatter holds these. */
export const COMMON_KEYS = ["work_item", "stage", "author_agent", "status", "created_at", "model_used"] as const;

/** The author of the artifacts that the staging runner writes. */
export const STAGING_RUNNER_AUTHOR = "staging-runner";

type Frontmatter = Extract<FrontmatterResult, { kind: "ok" }>;

/** Reads the verdict of a stage from its artifact as it stands in the commit that is judged. */
export const readGate = (file: CommittedFile, expectation: ArtifactExpectation): GateReading => {
  const path = artifactPath(expectation.stage, expectation.workItemId);
  const unreadable = (...faults: string[]): GateReading => ({
    kind: "unreadable",
    reason: `${path}: ${faults.join("; ")}`,
  });

  const content = contentOf(file);
  if (content.kind === "fault") return unreadable(content.fault);
  const frontmatter = readFrontmatter(content.bytes);
  if (frontmatter.kind === "error") return unreadable(frontmatter.message);
  const faults = [...commonKeyFaults(frontmatter), ...identityFaults(frontmatter, expectation)];
  if (faults.length > 0) return unreadable(...faults);

  const { gate } = expectation.stage;
  if (gate === null) return { kind: "pass", value: null };
  const verdict = readVerdict(frontmatter, gate);
  return verdict.kind === "fault" ? unreadable(verdict.fault) : verdict;
};

const contentOf = (file: CommittedFile): { kind: "bytes"; bytes: Uint8Array } | { kind: "fault"; fault: string } => {
  switch (file.kind) {
    case "file":
      return { kind: "bytes", bytes: file.content };
    case "missing":
      return { kind: "fault", fault: "the file is missing from the commit; the stage must write it" };
    case "not_regular":
      return { kind: "fault", fault: `found ${describeMode(file.mode)}, expected a regular file` };
    case "too_large":
      return {
        kind: "fault",
        fault: `the file has ${file.bytes} bytes, at most ${MAX_ARTIFACT_BYTES} are accepted`,
      };
  }
};

const describeMode = (mode: string): string => {
  switch (mode) {
    case "120000":
      return "a symbolic link";
    case "160000":
      return "a submodule";
    case "040000":
      return "a directory";
    default:
      return `git mode ${mode}`;
  }
};

const commonKeyFaults = ({ data, fields }: Frontmatter): string[] => {
  const missing = COMMON_KEYS.filter((key) => !Object.hasOwn(data, key));
  const absent = missing.length === 0 ? [] : [`the frontmatter has no ${missing.join(", ")}`];
  // What `work_item` and `stage` must be is known exactly; the others must say something.
  const empty = COMMON_KEYS.filter((key) => key !== "work_item" && key !== "stage")
    .filter((key) => Object.hasOwn(data, key) && (data[key] === "" || typeof data[key] === "object"))
    .map((key) => `line ${fields.get(key)?.line}: ${key} is ${describeValue(data[key])}, expected text`);
  return [...absent, ...empty];
};

/** The artifact must be of this task and stage and, where the staging runner speaks, of this very run and commit. */
const identityFaults = (
  frontmatter: Frontmatter,
  { workItemId, stage, runId, commit }: ArtifactExpectation,
): string[] => {
  const faults = [...mismatch(frontmatter, "work_item", workItemId), ...mismatch(frontmatter, "stage", stage.name)];
  const byRunner = runId !== undefined && commit !== undefined;
  if (byRunner) {
    faults.push(...mismatch(frontmatter, "run_id", String(runId)), ...mismatch(frontmatter, "commit", commit));
  } else if (frontmatter.data["author_agent"] === STAGING_RUNNER_AUTHOR) {
    const line = frontmatter.fields.get("author_agent")?.line;
    faults.push(`line ${line}: author_agent is ${STAGING_RUNNER_AUTHOR}, but the staging runner did not work this run`);
  }
  return faults;
};

/** Compares as text what YAML may have taken for something else: a work item may be called `Null`, a commit may be all digits. */
const mismatch = ({ data, fields }: Frontmatter, key: string, expected: string): string[] => {
  if (!Object.hasOwn(data, key)) {
    return (COMMON_KEYS as readonly string[]).includes(key)
      ? []
      : [`the frontmatter has no ${key}, expected ${expected}`];
  }
  const field = fields.get(key);
  if (data[key] === expected || field?.source === expected) return [];
  const written = typeof data[key] === "string" ? data[key] : field?.source;
  const found = written ? quote(written) : describeValue(data[key]);
  return [`line ${field?.line}: ${key} is ${found}, expected ${expected}`];
};

type Verdict = Exclude<GateReading, { kind: "unreadable" }> | { kind: "fault"; fault: string };

const readVerdict = ({ data, fields }: Frontmatter, gate: Gate): Verdict => {
  const accepted = `accepted: ${[...gate.pass, ...gate.fail].join(", ")}`;
  if (!Object.hasOwn(data, gate.key)) {
    return { kind: "fault", fault: `the frontmatter has no ${gate.key}, ${accepted}` };
  }
  const value = data[gate.key];
  if (typeof value === "string" && gate.pass.includes(value)) return { kind: "pass", value };
  if (typeof value === "string" && gate.fail.includes(value)) return { kind: "fail", value, onFail: gate.onFail };
  const found = typeof value === "string" ? quote(value) : `${describeValue(value)} and not text`;
  return { kind: "fault", fault: `line ${fields.get(gate.key)?.line}: ${gate.key} is ${found}, ${accepted}` };
};

/**
 * The verdict of a staging log, whoever wrote it, read as the stage's gate reads it: the frontmatter's `staging_status` where
 * that is exactly `SUCCESS` or `FAILED`; null for everything else, an unreadable file included.
 */
export const parseStagingStatus = (content: string | Uint8Array): "SUCCESS" | "FAILED" | null => {
  const frontmatter = readFrontmatter(typeof content === "string" ? new TextEncoder().encode(content) : content);
  if (frontmatter.kind === "error") return null;
  switch (readVerdict(frontmatter, STAGING_GATE).kind) {
    case "pass":
      return "SUCCESS";
    case "fail":
      return "FAILED";
    case "fault":
      return null;
  }
};
