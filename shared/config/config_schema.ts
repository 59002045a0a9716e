import * as v from "valibot";
import { isBranchName } from "../git_branch_name.ts";
import { GIT_URL_ACCEPTED, isGitUrl } from "./git_url.ts";

/**
 * The config file as it is written (YAML, snake_case, seconds). The message of each schema is what it accepts: it stands
 * behind "accepted:" in a fault. What depends on more than one key is checked where the section is turned into its `Config`.
 */

/** Timers count milliseconds in 31 bits; a longer one fires at once. */
export const MAX_TIMER_MS = 2_147_483_647;
const MAX_TIMER_S = Math.floor(MAX_TIMER_MS / 1000);

/** As a work item's id: it becomes a directory, part of a ref and a label. */
const NAME = /^[A-Za-z][A-Za-z0-9._-]{0,63}$/;
export const NAME_ACCEPTED = "a name of letters, digits, '.', '_' and '-' that begins with a letter (at most 64)";

/** True for what is safe as a directory, as a part of a git ref and as a label. */
export const isSafeName = (name: string): boolean =>
  NAME.test(name) && !name.includes("..") && !name.endsWith(".") && !name.endsWith(".lock");

/** The variable that a value of the form `$NAME` or `${NAME}` stands for; null for any other text, which stands for itself. */
export const variableNamed = (value: string): string | null => {
  const [, plain, braced] = /^\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})$/.exec(value) ?? [];
  return plain ?? braced ?? null;
};

const accepting = <S extends v.GenericSchema<unknown, unknown>>(schema: S, accepted: string) =>
  v.pipe(schema, v.description(accepted));

const text = (accepted: string, isAccepted: (value: string) => boolean = () => true) =>
  accepting(
    v.pipe(
      v.string(accepted),
      v.check((value) => value !== "" && !/[\u0000-\u001f\u007f]/.test(value) && isAccepted(value), accepted),
    ),
    accepted,
  );

export const whole = (min: number, max: number) => {
  const accepted = `a whole number from ${min} to ${max}`;
  return accepting(
    v.pipe(v.number(accepted), v.integer(accepted), v.minValue(min, accepted), v.maxValue(max, accepted)),
    accepted,
  );
};

const flag = accepting(v.boolean("true or false"), "true or false");

const choice = <const T extends readonly string[]>(words: T) => {
  const accepted = `one of ${words.join(", ")}`;
  return accepting(v.picklist(words, accepted), accepted);
};

const list = <S extends v.GenericSchema<unknown, unknown>>(item: S, accepted: string) =>
  accepting(v.pipe(v.array(item, accepted), v.minLength(1, accepted)), accepted);

/** The library takes a list for an object whose keys are numbers; a file that says so is told better. */
const notList = <S extends v.GenericSchema<unknown, unknown>>(schema: S, accepted: string) =>
  v.pipe(
    v.custom<v.InferInput<S>>(
      (value) => typeof value === "object" && value !== null && !Array.isArray(value),
      accepted,
    ),
    schema,
  );

/** A mapping with these keys and no others; a key without `v.optional` must be there. */
const mapping = <E extends v.ObjectEntries>(entries: E) => {
  const keys = Object.keys(entries).join(", ");
  const schema = v.strictObject(entries, (issue) => {
    // For a missing key the issue is the mapping's, with the key at the end of its path.
    const missing = issue.path?.at(-1)?.key;
    const entry = issue.expected !== "never" && typeof missing === "string" ? entries[missing] : undefined;
    return (entry && v.getDescription(entry as v.GenericSchema)) ?? keys;
  });
  return notList(schema, `a mapping with the keys ${keys}`);
};

const record = <K extends v.GenericSchema<string, string>, S extends v.GenericSchema<unknown, unknown>>(
  key: K,
  value: S,
  accepted: string,
) => notList(v.record(key, value, accepted), accepted);

const named = <S extends v.GenericSchema<unknown, unknown>>(value: S, accepted: string) =>
  record(text(NAME_ACCEPTED, isSafeName), value, accepted);

const ARGV = "a list: a program and its arguments, each a text (there is no shell)";
const argv = list(
  accepting(
    v.pipe(
      v.string("a text (put it in quotes)"),
      v.check((word) => !word.includes("\0"), "a text without NUL"),
    ),
    "a text",
  ),
  ARGV,
);
const command = accepting(
  v.pipe(
    argv,
    v.check(([program]) => program !== "", ARGV),
  ),
  ARGV,
);

const ENV_NAME_ACCEPTED = "a variable name (letters, digits and _) that does not begin with ORCH_";
const envName = text(ENV_NAME_ACCEPTED, (name) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !name.startsWith("ORCH_"));
const ENV_VALUE_ACCEPTED = "a text (put it in quotes), or $NAME to take it from the environment";
const OWN_SECRETS_ACCEPTED = "a variable that is not the orchestrator's own: an agent is never given its tokens";
const envValue = accepting(
  v.pipe(
    v.string(ENV_VALUE_ACCEPTED),
    v.check((value) => !value.includes("\0"), "a text without NUL"),
    v.check((value) => !variableNamed(value)?.startsWith("ORCH_"), OWN_SECRETS_ACCEPTED),
  ),
  ENV_VALUE_ACCEPTED,
);

export const repoSchema = mapping({
  url: text(GIT_URL_ACCEPTED, isGitUrl),
  base_branch: v.optional(text("a branch name that git accepts", isBranchName), "main"),
  push: v.optional(flag, true),
  merge: v.optional(choice(["none", "merge", "squash"]), "none"),
  environment: v.optional(text(NAME_ACCEPTED, isSafeName)),
  plan: v.optional(choice(["branch", "base"]), "branch"),
});

export const agentSchema = mapping({
  command,
  model: v.optional(text("a model's name (at most 200 characters)", (name) => name.length <= 200)),
  timeout_s: v.optional(whole(1, MAX_TIMER_S)),
  /** 0: never. */
  stall_timeout_s: v.optional(whole(0, MAX_TIMER_S)),
  env: v.optional(record(envName, envValue, "a mapping of variable names to texts"), {}),
});

const limit = whole(1, 1000);
const limitsByName = v.optional(named(limit, "a mapping of names to whole numbers"), {});
export const limitsSchema = mapping({
  total: v.optional(limit),
  per_repo: limitsByName,
  per_agent: limitsByName,
});

export const NOTIFY_ON = ["waiting", "blocked", "done", "paused"] as const;
const NOTIFY_ON_ACCEPTED = `a list of ${NOTIFY_ON.join(", ")}`;
export const notifySchema = mapping({
  url: v.optional(text("an http:// or https:// URL", (url) => /^https?:\/\/\S+$/i.test(url) && URL.canParse(url))),
  secret: v.optional(text("a text, or $NAME to take it from the environment")),
  command: v.optional(command),
  on: v.optional(list(choice(NOTIFY_ON), NOTIFY_ON_ACCEPTED), [...NOTIFY_ON]),
});

/** What an agent writes unquoted must be read as text again: the words to which YAML gives another meaning are out. */
const gateValue = text(
  "a word in upper case such as APPROVED",
  (value) => /^[A-Z][A-Z0-9_-]*$/.test(value) && !/^(TRUE|FALSE|NULL)$/.test(value),
);
const gateValues = list(gateValue, "a list of words in upper case");

const gateSchema = mapping({
  key: text("a key of the frontmatter such as review_status", (key) => /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/.test(key)),
  pass: gateValues,
  fail: gateValues,
  on_fail: text("the name of an earlier stage, or blocked"),
});

export const stageSchema = mapping({
  name: text(NAME_ACCEPTED, isSafeName),
  agent: text(NAME_ACCEPTED, isSafeName),
  artifact: text("a file name that ends in .md", (name) =>
    /^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\.md$/.test(name),
  ),
  gate: v.optional(gateSchema),
  writes: v.optional(choice(["docs", "code"]), "docs"),
  max_attempts: v.optional(whole(1, 100), 3),
  approval: v.optional(flag, false),
  rerun: v.optional(flag),
});

export const pipelineSchema = mapping({
  max_returns: v.optional(whole(0, 1000), 3),
  stages: list(stageSchema, "a list of at least one stage"),
});

export const SECTIONS = {
  // `default` stands for all the others under limits.per_repo.
  repos: record(
    text(`${NAME_ACCEPTED} and is not default`, (name) => isSafeName(name) && name !== "default"),
    repoSchema,
    "a mapping of repository names to their settings",
  ),
  agents: named(agentSchema, "a mapping of agent names (or default) to their settings"),
  limits: limitsSchema,
  notify: notifySchema,
  pipeline: pipelineSchema,
} as const;
export type SectionName = keyof typeof SECTIONS;

export type AgentSection = v.InferOutput<typeof agentSchema>;
export type PipelineSection = v.InferOutput<typeof pipelineSchema>;
export type StageSection = PipelineSection["stages"][number];
