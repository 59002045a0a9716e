import { foundAccepted, showPath, showValue } from "@orchestrator/shared/config/fault.ts";
import type { YamlPath } from "@orchestrator/shared/read_yaml.ts";
import type * as v from "valibot";

/** One line: where, which key, what was found, what is accepted. */
export type Fault = string;

/**
 * An issue of the plan's schema as a line that its author can act on, for example
 * `line 7: steps[1].timeout_s: found "5m", accepted: …`. The messages of the schema are what is accepted.
 */
export const describeIssue = (issue: v.BaseIssue<unknown>, lineOf: (path: YamlPath) => number): Fault => {
  const path = (issue.path ?? []).map(({ key }) => (typeof key === "number" ? key : String(key)));
  const at = `line ${lineOf(path)}: ${showPath(path)}`;
  if (issue.type === "strict_object" && issue.expected === "never") return `${at}: unknown key`;
  if (issue.kind === "schema" && issue.received === "undefined") return `${at}: missing`;
  return `${at}: ${foundAccepted(showValue(issue.input), issue.message)}`;
};
