import type { TaskStatus } from "@orchestrator/shared/domain.ts";

/** What a person can do with a task. */
export const TASK_ACTIONS = ["cancel", "retry", "approve", "return"] as const;
export type TaskAction = (typeof TASK_ACTIONS)[number];

/** The one table of which action is allowed in which status. */
export const ALLOWED_IN = {
  cancel: ["active", "waiting", "blocked"],
  retry: ["blocked"],
  approve: ["waiting"],
  return: ["waiting", "blocked"],
} as const satisfies Record<TaskAction, readonly TaskStatus[]>;

/** The actions that a task in that status allows. */
export const allowedActions = (status: TaskStatus): TaskAction[] =>
  TASK_ACTIONS.filter((action) => (ALLOWED_IN[action] as readonly TaskStatus[]).includes(status));

/**
 * Why an action is not allowed in a status, in words for a person: the state, and what is allowed.
 * @returns null where it is allowed.
 */
export const whyNotAllowed = (action: TaskAction, status: TaskStatus): string | null => {
  const allowed = allowedActions(status);
  if (allowed.includes(action)) return null;
  const instead = allowed.length === 0 ? "nothing can be done with it any more" : `allowed now: ${list(allowed)}`;
  return `The task is ${status}; ${action} needs it to be ${list(ALLOWED_IN[action], "or")}. In this state ${instead}.`;
};

const list = (words: readonly string[], last = "and"): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}`;
