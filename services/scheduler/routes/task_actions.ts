import { toSnake } from "@orchestrator/shared/case.ts";
import { BODY_PROBLEMS, jsonAnswer, problemAnswers } from "@orchestrator/shared/http/document.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { jsonBody } from "@orchestrator/shared/http/json_body.ts";
import { invalidInput, problem } from "@orchestrator/shared/http/problem.ts";
import { approveSchema, cancelSchema, retrySchema, returnSchema } from "@orchestrator/shared/schemas/actions.ts";
import type { TaskKey } from "@orchestrator/shared/storage/read_task.ts";
import { type Context, Hono } from "hono";
import { describeRoute } from "hono-openapi";
import type { TaskActionResult } from "../act_on_task.ts";
import { ALLOWED_IN, type TaskAction } from "../task_actions.ts";
import { task } from "./documented.ts";
import { exampleTask } from "./examples.ts";
import { TASK_PARAM, taskKey } from "./path_params.ts";
import type { Routes } from "./routes.ts";

/** What a person does with a task. Which of it is allowed when stands in one table, `task_actions.ts`. */
export const taskActionRoutes: Routes = ({ api }) =>
  new Hono<HttpEnv>()
    .post(
      "/tasks/:task/cancel",
      describe("cancel", "Give up a task; its work is kept", { status: "cancelled", lease_run_id: null }),
      jsonBody(cancelSchema, { optional: true, example: { reason: "no longer wanted" } }),
      (c) => act(c.req.param("task"), (key) => api.cancelTask(key, c.req.valid("json")), c),
    )
    .post(
      "/tasks/:task/retry",
      describe("retry", "Try a blocked task again: a fresh job, attempts and returns from zero", {
        lease_run_id: null,
      }),
      jsonBody(retrySchema, { optional: true, example: { note: "The registry is reachable again." } }),
      (c) => act(c.req.param("task"), (key) => api.retryTask(key, c.req.valid("json")), c),
    )
    .post(
      "/tasks/:task/approve",
      describe("approve", "Let a waiting task into its stage", { lease_run_id: null, stage: "deploy" }),
      jsonBody(approveSchema, { example: { stage: "deploy" } }),
      (c) => act(c.req.param("task"), (key) => api.approveTask(key, c.req.valid("json")), c),
    )
    .post(
      "/tasks/:task/return",
      describe("return", "Send a waiting or blocked task back to an earlier stage", {
        lease_run_id: null,
        stage: "development",
        returns: 1,
      }),
      jsonBody(returnSchema, { example: { to: "development", reason: "The error page shows the stack." } }),
      (c) => act(c.req.param("task"), (key) => api.returnTask(key, c.req.valid("json")), c),
    );

const describe = (action: TaskAction, summary: string, after: Partial<typeof exampleTask>) =>
  describeRoute({
    summary,
    description: `Allowed while the task is ${ALLOWED_IN[action].join(" or ")}.`,
    parameters: TASK_PARAM,
    responses: {
      200: jsonAnswer("The task as it is now.", task, { ...exampleTask, ...after }),
      ...problemAnswers(...BODY_PROBLEMS, "not_found", "invalid_state"),
    },
  });

const act = async (
  text: string,
  action: (key: TaskKey) => Promise<TaskActionResult>,
  c: Context<HttpEnv>,
): Promise<Response> => {
  const key = taskKey(text);
  const result: TaskActionResult = key === null ? { kind: "not_found" } : await action(key);
  switch (result.kind) {
    case "ok":
      return c.json(toSnake(result.task));
    case "not_found":
      return problem("not_found", "There is no task with this id or work item id.");
    case "invalid_state":
      return problem("invalid_state", result.detail);
    case "invalid":
      return invalidInput(result.errors);
  }
};
