import { readFileSync } from "node:fs";
import * as v from "valibot";
import { readYaml, type YamlPath } from "../read_yaml.ts";
import { type AgentSection, agentSchema, SECTIONS, type SectionName } from "./config_schema.ts";
import { foundAccepted, showKindOnly, showPath, showValue } from "./fault.ts";

type Sections = { [K in SectionName]: v.InferOutput<(typeof SECTIONS)[K]> };

/** The config file after its form has been checked. A section that is not there, or has a fault, is undefined. */
export interface ConfigFile {
  sections: Partial<Sections>;
  /** The agents without a fault of form, so that one bad entry does not hide what else is wrong with the others. */
  agents: Readonly<Record<string, AgentSection>>;
  /** The names under `repos`, those of faulty entries too. */
  repoNames: readonly string[];
  /** The names under `agents`, those of faulty entries too. */
  agentNames: readonly string[];
  /** True for a section that is there and is not what it should be. */
  isFaulty(section: SectionName): boolean;
  /** Adds a fault about a key. */
  fault(path: YamlPath, text: string): void;
  /** One line each, in the order of the file. */
  faults(): string[];
}

const SECTION_NAMES = Object.keys(SECTIONS) as SectionName[];
const ALL_SECTIONS = SECTION_NAMES.join(", ");

/**
 * Reads the config file and checks its form. A missing file is an empty one, unless it must be there.
 * @param required whether it must: `ORCH_CONFIG` names it, and nobody is about to put it there.
 */
export const readConfigFile = (path: string, required: boolean): ConfigFile => {
  const loaded = loadText(path, required);
  if (loaded.kind === "fault") return withFaults([loaded.fault]);
  const reading = readYaml(loaded.text);
  if (reading.kind === "error") return withFaults([`${path}:${reading.line}: ${reading.message}`]);
  if (reading.value === null) return withFaults([]);
  if (!isMapping(reading.value)) {
    const fault = foundAccepted(showKindOnly(reading.value), `a mapping with the keys ${ALL_SECTIONS}`);
    return withFaults([`${path}:1: ${fault}`]);
  }
  return checkSections(path, reading.value, reading.lineOf);
};

const loadText = (
  path: string,
  required: boolean,
): { kind: "text"; text: string } | { kind: "fault"; fault: string } => {
  const accepted = "the path of a YAML file that can be read";
  const fault = (found: string) =>
    ({ kind: "fault", fault: `ORCH_CONFIG: ${foundAccepted(found, accepted)}` }) as const;
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    if (code === "ENOENT" && required) return fault(`no file at ${showValue(path)}`);
    // A data directory that is no directory is a fault of its own, which is found where the directory is needed.
    if ((code === "ENOENT" || code === "ENOTDIR") && !required) return { kind: "text", text: "" };
    return fault(`${showValue(path)}, which cannot be read (${code})`);
  }
  try {
    return { kind: "text", text: new TextDecoder("utf-8", { fatal: true }).decode(bytes) };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return fault(`${showValue(path)}, which is not UTF-8`);
  }
};

const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const namesOf = (value: unknown): string[] => (isMapping(value) ? Object.keys(value) : []);

const withFaults = (faults: string[]): ConfigFile => ({
  sections: {},
  agents: {},
  repoNames: [],
  agentNames: [],
  isFaulty: () => faults.length > 0,
  fault: (path, text) => faults.push(`${showPath(path)}: ${text}`),
  faults: () => faults,
});

const checkSections = (file: string, raw: Record<string, unknown>, lineOf: (path: YamlPath) => number): ConfigFile => {
  const found: { line: number; text: string }[] = [];
  const fault = (path: YamlPath, text: string): void => {
    const line = lineOf(path);
    found.push({ line, text: `${file}:${line}: ${showPath(path)}: ${text}` });
  };
  for (const path of takeOutInheritedNames(raw, [])) {
    fault(path, foundAccepted("a name with a meaning of its own in the program", "another name"));
  }
  for (const key of Object.keys(raw)) {
    if (!(SECTION_NAMES as string[]).includes(key)) fault([key], `unknown key, accepted: ${ALL_SECTIONS}`);
  }
  const sections: Partial<Sections> = {};
  for (const name of SECTION_NAMES) {
    // A section whose entries are all commented out is an empty one.
    if (raw[name] === undefined || raw[name] === null) continue;
    const issues = issuesOf(SECTIONS[name], raw[name], [name]);
    for (const { path, text } of issues) fault(path, text);
    if (issues.length === 0) Object.assign(sections, { [name]: v.parse(SECTIONS[name], raw[name]) });
  }
  return {
    sections,
    agents: wellFormedAgents(raw["agents"]),
    repoNames: namesOf(raw["repos"]),
    agentNames: namesOf(raw["agents"]),
    isFaulty: (name) => (raw[name] ?? null) !== null && sections[name] === undefined,
    fault,
    faults: () => found.sort((a, b) => a.line - b.line).map(({ text }) => text),
  };
};

/** Names that every object seems to have. The schemas would pass over them in silence, so they are taken out with a fault. */
const takeOutInheritedNames = (value: unknown, path: YamlPath): YamlPath[] => {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const place = [...path, Array.isArray(value) ? Number(key) : key];
    if (["__proto__", "constructor", "prototype"].includes(key)) {
      delete (value as Record<string, unknown>)[key];
      return [place];
    }
    return takeOutInheritedNames(inner, place);
  });
};

const wellFormedAgents = (raw: unknown): Record<string, AgentSection> => {
  const agents: Record<string, AgentSection> = {};
  for (const [name, entry] of isMapping(raw) ? Object.entries(raw) : []) {
    const parsed = v.safeParse(agentSchema, entry);
    if (parsed.success) agents[name] = parsed.output;
  }
  return agents;
};

interface FormFault {
  path: YamlPath;
  text: string;
}

const issuesOf = (schema: v.GenericSchema, raw: unknown, prefix: YamlPath): FormFault[] => {
  const { issues } = v.safeParse(schema, raw, { abortPipeEarly: true });
  if (issues === undefined) return [];
  const unknown = issues.filter(isUnknownKey);
  const faults = issues.map((issue) => describeIssue(issue, prefix));
  if (unknown.length === 0) return faults;
  // The library reports one unknown key of a mapping and stops looking: it is taken out, and the rest looked at again.
  for (const issue of unknown) {
    const last = issue.path?.at(-1);
    if (last !== undefined) delete (last.input as Record<string, unknown>)[String(last.key)];
  }
  return [...unknown.map((issue) => describeIssue(issue, prefix)), ...issuesOf(schema, raw, prefix)];
};

const isUnknownKey = (issue: v.BaseIssue<unknown>): boolean =>
  issue.type === "strict_object" && issue.expected === "never";

const describeIssue = (issue: v.BaseIssue<unknown>, prefix: YamlPath): FormFault => {
  const path = [...prefix, ...(issue.path ?? []).map(({ key }) => (typeof key === "number" ? key : String(key)))];
  if (isUnknownKey(issue)) return { path, text: `unknown key, accepted: ${issue.message}` };
  const last = issue.path?.at(-1);
  if (last?.origin === "key") {
    const missing = issue.type === "strict_object";
    return { path, text: missing ? `missing, accepted: ${issue.message}` : foundAccepted("this name", issue.message) };
  }
  // A text where a mapping or a list belongs may be a whole command or URL.
  const hidden = mayHoldSecret(path) || (typeof issue.input === "string" && ["custom", "array"].includes(issue.type));
  return { path, text: foundAccepted(hidden ? showKindOnly(issue.input) : showValue(issue.input), issue.message) };
};

/** Commands and URLs hold keys often enough. */
const mayHoldSecret = ([section, name, key]: YamlPath): boolean =>
  (section === "agents" && (key === "env" || key === "command")) ||
  (section === "repos" && key === "url") ||
  (section === "notify" && name !== "on");
