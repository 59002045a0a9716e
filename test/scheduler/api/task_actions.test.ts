import { TASK_STATUSES, type TaskStatus } from "@orchestrator/shared/domain.ts";
import { describe, expect, test } from "vitest";
import {
  allowedActions,
  TASK_ACTIONS,
  type TaskAction,
  whyNotAllowed,
} from "../../../services/scheduler/task_actions.ts";

const TABLE: Record<TaskStatus, readonly TaskAction[]> = {
  active: ["cancel"],
  waiting: ["cancel", "approve", "return"],
  blocked: ["cancel", "retry", "return"],
  done: [],
  cancelled: [],
};

const cells = TASK_STATUSES.flatMap((status) =>
  TASK_ACTIONS.map((action) => [action, status, TABLE[status].includes(action)] as const),
);

test.each(cells)("%s of a task that is %s: %s", (action, status, allowed) => {
  expect(allowedActions(status).includes(action)).toBe(allowed);
  expect(whyNotAllowed(action, status) === null).toBe(allowed);
});

describe("why not", () => {
  test.each<[TaskAction, TaskStatus, string]>([
    ["retry", "active", "The task is active; retry needs it to be blocked. In this state allowed now: cancel."],
    [
      "retry",
      "waiting",
      "The task is waiting; retry needs it to be blocked. In this state allowed now: cancel, approve and return.",
    ],
    [
      "approve",
      "blocked",
      "The task is blocked; approve needs it to be waiting. In this state allowed now: cancel, retry and return.",
    ],
    [
      "return",
      "done",
      "The task is done; return needs it to be waiting or blocked. In this state nothing can be done with it any more.",
    ],
    [
      "cancel",
      "cancelled",
      "The task is cancelled; cancel needs it to be active, waiting or blocked. In this state nothing can be done with it any more.",
    ],
  ])("%s of a task that is %s", (action, status, text) => {
    expect(whyNotAllowed(action, status)).toBe(text);
  });
});
