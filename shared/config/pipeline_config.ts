import { COMMON_KEYS } from "../artifact.ts";
import { DONE_STAGE, STAGING_STAGE } from "../domain.ts";
import { DEFAULT_PIPELINE, findStage, isStagingRunners, type Pipeline } from "../pipeline.ts";
import type { YamlPath } from "../read_yaml.ts";
import type { PipelineSection, StageSection } from "./config_schema.ts";
import { foundAccepted } from "./fault.ts";

/** Where a failing gate sends a task that no stage can help. */
const BLOCKED = "blocked";

type Report = (path: YamlPath, text: string) => void;

/**
 * The pipeline of the config file, and what its stages have against one another.
 * @param stagingRunnerEnabled whether the staging runner works `deploy-staging`: it writes one artifact with one gate.
 */
export const toPipeline = (section: PipelineSection, stagingRunnerEnabled: boolean, fault: Report): Pipeline => {
  section.stages.forEach((stage, index) => {
    const path = ["pipeline", "stages", index];
    const earlier = section.stages.slice(0, index);
    checkNames(stage, earlier, path, fault);
    checkGate(stage, earlier, path, fault);
    const job = { stage: stage.name, agent: stage.agent };
    if (isStagingRunners(job, { stagingRunnerEnabled })) checkStagingStage(stage, path, fault);
  });
  return {
    maxReturns: section.max_returns,
    stages: section.stages.map((stage) => ({
      name: stage.name,
      agent: stage.agent,
      artifact: stage.artifact,
      gate: stage.gate
        ? { key: stage.gate.key, pass: stage.gate.pass, fail: stage.gate.fail, onFail: stage.gate.on_fail }
        : null,
      writes: stage.writes,
      maxAttempts: stage.max_attempts,
      approval: stage.approval,
      rerun: stage.rerun ?? findStage(DEFAULT_PIPELINE, stage.name)?.rerun ?? true,
    })),
  };
};

const checkNames = (stage: StageSection, earlier: readonly StageSection[], path: YamlPath, fault: Report): void => {
  if ([DONE_STAGE, BLOCKED].includes(stage.name.toLowerCase())) {
    fault([...path, "name"], foundAccepted(JSON.stringify(stage.name), "a name other than done and blocked"));
  }
  if (earlier.some(({ name }) => name.toLowerCase() === stage.name.toLowerCase())) {
    fault([...path, "name"], foundAccepted(JSON.stringify(stage.name), "a name that no earlier stage has"));
  }
  if (earlier.some(({ artifact }) => artifact.toLowerCase() === stage.artifact.toLowerCase())) {
    fault([...path, "artifact"], foundAccepted(JSON.stringify(stage.artifact), "a file that no earlier stage writes"));
  }
};

const checkGate = ({ gate }: StageSection, earlier: readonly StageSection[], path: YamlPath, fault: Report): void => {
  if (gate === undefined) return;
  const place = [...path, "gate"];
  // `status` is free text of the author's: a gate may use it.
  if (gate.key !== "status" && (COMMON_KEYS as readonly string[]).includes(gate.key)) {
    fault([...place, "key"], foundAccepted(JSON.stringify(gate.key), "a key that does not identify the artifact"));
  }
  for (const value of gate.fail.filter((word) => gate.pass.includes(word))) {
    fault([...place, "fail"], foundAccepted(JSON.stringify(value), "values that are not in pass"));
  }
  const targets = [...earlier.map(({ name }) => name), BLOCKED];
  if (!targets.includes(gate.on_fail)) {
    fault([...place, "on_fail"], foundAccepted(JSON.stringify(gate.on_fail), `one of ${targets.join(", ")}`));
  }
};

/** The staging runner's artifact is what it is: another gate would never be met, none would let a failure pass. */
const checkStagingStage = (stage: StageSection, path: YamlPath, fault: Report): void => {
  const standard = findStage(DEFAULT_PIPELINE, STAGING_STAGE);
  if (standard === undefined || standard.gate === null) throw new Error("the default pipeline has no staging stage");
  const why = "(the staging runner writes it)";
  if (stage.artifact !== standard.artifact) {
    fault([...path, "artifact"], foundAccepted(JSON.stringify(stage.artifact), `${standard.artifact} ${why}`));
  }
  const { gate } = stage;
  const same =
    gate !== undefined &&
    gate.key === standard.gate.key &&
    gate.pass.join() === standard.gate.pass.join() &&
    gate.fail.join() === standard.gate.fail.join();
  if (!same) {
    const { key, pass, fail } = standard.gate;
    const accepted = `key: ${key}, pass: [${pass.join()}], fail: [${fail.join()}] ${why}`;
    fault([...path, "gate"], foundAccepted(gate === undefined ? "nothing" : "another gate", accepted));
  }
};
