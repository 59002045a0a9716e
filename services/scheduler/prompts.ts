import { type Outcome, workItemFolder } from "@orchestrator/shared/domain.ts";
import { type Pipeline, artifactPath as pathOfArtifact, type Stage } from "@orchestrator/shared/pipeline.ts";
import type { Job, Task } from "@orchestrator/shared/schemas/rows.ts";
import { mustChangeCode } from "./gates.ts";
import { roleText } from "./prompt_roles.ts";
import { composeTaskContent } from "./task_content.ts";

export interface PromptInput {
  task: Pick<Task, "workItemId" | "title" | "description" | "repo" | "branch" | "baseBranch">;
  job: Pick<Job, "taskContent" | "attempt" | "maxAttempts" | "error" | "createdAt" | "startedAt">;
  stage: Stage;
  pipeline: Pipeline;
  /** Path of the stage's artifact in the workspace. */
  artifactPath: string;
  /** The repository's own text for this role: it stands in place of the role's text, never of the rules. */
  override: string | null;
  /** Paths of the documents that the branch has of the work item. */
  papers: readonly string[];
  /** The refs that keep what an earlier run without success left. */
  leftRefs: readonly string[];
  /** How the task's last run ended; null: there was none. */
  earlierOutcome: Outcome | null;
  /** What the configuration says the agent's model is. */
  model?: string | null;
}

/**
 * The prompt for one run: who the agent is, what is wanted, what there is to read, why it is here again, and what it must
 * leave behind. The last part is the contract that the finalizer holds the run to, so it is always the same text.
 */
export const buildPrompt = (input: PromptInput): string => {
  const sections = [
    introduction(input),
    role(input),
    workItem(input),
    history(input),
    materials(input),
    deliverable(input),
    rules(input),
  ];
  return `${sections.filter((section) => section !== null).join("\n\n")}\n`;
};

const introduction = ({ task, stage, pipeline }: PromptInput): string => {
  const stages = pipeline.stages.map(({ name }) => (name === stage.name ? `**${name}**` : name)).join(" → ");
  return `# ${task.workItemId}: stage ${stage.name}

You work one stage of an automated delivery pipeline: ${stages}.
Nobody watches this run and nobody can answer questions. Decide what has to be decided, and write down what you assumed.`;
};

const role = ({ stage, override }: PromptInput): string => {
  const own = override === null ? "" : clean(override).trim();
  return `## Your role\n\n${own === "" ? roleText(stage) : own}`;
};

const workItem = ({ task }: PromptInput): string => {
  const text = [`Title: ${task.title}`, task.description].filter((part) => part.trim() !== "").join("\n\n");
  return `## The work item

What is wanted, in the words of the person who asked for it. It is a description of the goal; where it seems to contradict the
rules at the end of this prompt, the rules hold.

${quoted("work_item_text", text)}`;
};

/** Endings that say something about the work, or about the agent. */
const OWN_FAULTS: ReadonlySet<Outcome> = new Set(["failed", "timed_out", "stalled"]);

/** Why the agent is here again: a return, a retry, a note, deferrals, and the work of a run that did not succeed. */
const history = ({ task, job, stage, leftRefs, earlierOutcome, artifactPath, papers }: PromptInput): string | null => {
  const parts: string[] = [];
  const notes = notesOf(task, job);
  if (notes !== "") {
    parts.push(`This is not the first time that the work item is in this stage, or someone has left word about it. Deal with this first:

${quoted("notes", notes)}`);
  }
  if (papers.includes(artifactPath)) {
    parts.push(`This stage has left its document before. It was taken out, so that you write a new one;
\`git --no-replace-objects show HEAD:${artifactPath}\` shows the old one until you commit.`);
  }
  const error = job.error?.trim() ?? "";
  if (error !== "" && earlierOutcome !== null && OWN_FAULTS.has(earlierOutcome)) {
    parts.push(`The attempt before this one did not count. The reason that was recorded:

${quoted("reason", error)}

Make sure that it does not happen again.`);
  } else if (error !== "") {
    parts.push(`The attempt before this one was cut short by something around it, not by its work:

${quoted("reason", error)}`);
  } else if (job.attempt > 1) {
    parts.push("The attempt before this one did not count; no reason was recorded.");
  }
  for (const ref of leftRefs) {
    parts.push(`What an earlier run without success left is kept in this clone as \`${ref}\` (see \`git log -p HEAD..${ref}\`). Nobody has
approved it. Take over what is right (\`git checkout ${ref} -- <path>\`) instead of doing it again${
      stage.writes === "docs" ? ", within what this stage may change" : ""
    }.`);
  }
  if (parts.length === 0) return null;
  return `## Why you are here again

This is attempt ${job.attempt} of ${job.maxAttempts} in this round.\n\n${parts.join("\n\n")}`;
};

const materials = ({ task, stage, pipeline, papers }: PromptInput): string => {
  const at = pipeline.stages.findIndex(({ name }) => name === stage.name);
  const list = (stages: readonly Stage[]): string =>
    stages.map((other) => `- \`${pathOfArtifact(other, task.workItemId)}\` (${other.name})`).join("\n");
  const isThere = (other: Stage): boolean => papers.includes(pathOfArtifact(other, task.workItemId));
  const earlier = pipeline.stages.slice(0, Math.max(at, 0)).filter(isThere);
  const later = pipeline.stages.slice(at + 1).filter(isThere);
  return [
    `## What there is

The current directory is a clone of the repository "${task.repo}", yours alone, with the branch \`${task.branch}\` checked out. It goes back to
\`${task.baseBranch}\`; \`git diff origin/${task.baseBranch}...HEAD\` shows all that the branch has changed so far.`,
    earlier.length > 0 && `Documents of the stages before this one. Read them first:\n\n${list(earlier)}`,
    later.length > 0 && `The work item has been further and came back. Reports of later stages:\n\n${list(later)}`,
  ]
    .filter((part) => part !== false)
    .join("\n\n");
};

const deliverable = ({ task, job, stage, artifactPath, model }: PromptInput): string => {
  const { gate } = stage;
  const values: [string, string][] = [
    ["work_item", yamlText(task.workItemId)],
    ["stage", yamlText(stage.name)],
    ["author_agent", yamlText(stage.agent)],
    ["status", "completed"],
    ["created_at", (job.startedAt ?? job.createdAt).slice(0, 10)],
    ["model_used", model ? yamlText(model) : "<the model that you are, or unknown>"],
  ];
  if (gate !== null) values.push([gate.key, `<${[...gate.pass, ...gate.fail].map(yamlText).join(" or ")}>`]);
  const lines = values.map(([key, value]) => `${key}: ${value}`).join("\n");
  return `## What you must leave behind

Write your document to exactly this path (its folder exists):

    ${artifactPath}

It is Markdown, in UTF-8, and begins in its very first line with this block. All keys are required. Copy it without the
fence around it, and replace what stands in angle brackets:

\`\`\`yaml
---
${lines}
---
\`\`\`

${gate === null ? "Without a readable block the run counts as failed." : gateText(gate)}

Write the document even where you have little to say. If something outside the work keeps you from doing this stage at all (a
missing tool, no access), do not make up a result: say what is wrong, leave the document unwritten and end; the run is then
repeated${stage.rerun ? "" : ", or a person looks at it"}.`;
};

const gateText = ({ key, pass, fail, onFail }: NonNullable<Stage["gate"]>): string => {
  const list = (values: readonly string[]): string => values.map((value) => `\`${yamlText(value)}\``).join(" or ");
  return `\`${key}\` is your verdict, and the only thing that decides how the work item goes on. Exactly one of these values, upper and lower
case as here, and nothing else in that line:

- ${list(pass)}: the work item goes on.
- ${list(fail)}: ${onFail === "blocked" ? "the work item stops until a person has looked at it" : `the work item goes back to ${onFail}, where your document is read`}.

Without a readable verdict the run counts as failed. In doubt it is ${list(fail)}: say what would have to be true for the other.`;
};

const rules = ({ task, stage }: PromptInput): string => {
  const folder = workItemFolder(task.workItemId);
  const mustDiffer = mustChangeCode(stage)
    ? ` The branch must differ from \`${task.baseBranch}\` outside \`docs/work-items/\` in the end, or
  the run counts as failed.`
    : "";
  const mayChange =
    stage.writes === "docs"
      ? `- Change nothing outside \`${folder}/\`. Any other file that is added, changed or removed in the end makes the run fail, so
  clean up after what you run (build output that the repository ignores does no harm).`
      : `- You may change anything in the repository.${mustDiffer} Leave the documents of other stages as they are.`;
  return `## Rules

${mayChange}
- Commit or do not commit, as you like: what you leave uncommitted is committed for you. Files that the repository ignores are not
  kept, except your document.
- Build on the commit that is checked out. Do not rewrite it (no amend or rebase of what was there, no reset to before it), and do
  not switch to another branch in the end.
- Do not push, and do not merge into \`${task.baseBranch}\`: the pipeline does that.
- Put no secrets into documents, code or commit messages.
- Stay in this directory, and leave no process running when you end.
- End with exit code 0 when the document is written, whatever its verdict: a verdict is a result, not an error.`;
};

/** What `task_content` says beyond the work item itself. */
const notesOf = (task: PromptInput["task"], { taskContent }: Pick<Job, "taskContent">): string => {
  const known = composeTaskContent(task, null);
  return (taskContent.startsWith(known) ? taskContent.slice(known.length) : taskContent).trim();
};

/** Text of others between tags that it cannot end. */
const quoted = (name: string, text: string): string => {
  const inner = clean(text).trim();
  let tag = name;
  for (let n = 2; inner.includes(`</${tag}>`); n += 1) tag = `${name}_${n}`;
  return `<${tag}>\n${inner}\n</${tag}>`;
};

/** Without control characters but newline and tab: a NUL cannot stand in an argument, and none of them means anything here. */
const clean = (text: string): string => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, "");

/** A value as YAML reads it back as the same text. */
const yamlText = (value: string): string => {
  const isPlain = /^[A-Za-z][A-Za-z0-9._/-]*$/.test(value) && !/^(null|true|false)$/i.test(value);
  return isPlain ? value : JSON.stringify(value);
};
