import { toCamel, toSnake } from "@orchestrator/shared/case.ts";
import { TASK_STATUSES } from "@orchestrator/shared/domain.ts";
import { cursorParam, encodeCursor } from "@orchestrator/shared/http/cursor.ts";
import { BODY_PROBLEMS, jsonAnswer, problemAnswers } from "@orchestrator/shared/http/document.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { jsonBody } from "@orchestrator/shared/http/json_body.ts";
import { invalidInput, problem } from "@orchestrator/shared/http/problem.ts";
import { queryParams, wholeNumberParam } from "@orchestrator/shared/http/query_params.ts";
import { newTaskSchema } from "@orchestrator/shared/schemas/new_task.ts";
import { cleanText } from "@orchestrator/shared/schemas/text.ts";
import { Hono } from "hono";
import { describeRoute } from "hono-openapi";
import * as v from "valibot";
import { event, job, nextCursor, run, task } from "./documented.ts";
import { exampleCursor, exampleEvent, exampleJob, exampleRun, exampleTask } from "./examples.ts";
import { TASK_PARAM, taskKey } from "./path_params.ts";
import type { Routes } from "./routes.ts";

const taskList = v.object({ tasks: v.array(task), next_cursor: nextCursor });
const taskWithHistory = v.pipe(
  v.object({ ...task.entries, jobs: v.array(job), runs: v.array(run), events: v.array(event) }),
  v.metadata({ ref: "TaskWithHistory" }),
);

const listQuery = v.strictObject({
  status: v.exactOptional(v.picklist(TASK_STATUSES)),
  stage: v.exactOptional(v.pipe(cleanText(100), v.minLength(1))),
  limit: wholeNumberParam({ min: 1, max: 200, absent: 50 }),
  cursor: v.exactOptional(cursorParam),
});

export const taskRoutes: Routes = ({ api }) =>
  new Hono<HttpEnv>()
    .post(
      "/tasks",
      describeRoute({
        summary: "Hand in a work item",
        responses: {
          201: { ...jsonAnswer("The task, whose first job is queued.", task, NEW_TASK), headers: LOCATION },
          ...problemAnswers(...BODY_PROBLEMS, "work_item_exists", "branch_taken", "unknown_repo"),
        },
      }),
      jsonBody(newTaskSchema, {
        example: { work_item_id: exampleTask.work_item_id, title: exampleTask.title, repo: exampleTask.repo },
      }),
      async (c) => {
        const result = await api.createTask(toCamel(c.req.valid("json")));
        switch (result.kind) {
          case "created":
            return c.json(toSnake(result.task), 201, { location: `/tasks/${result.task.id}` });
          case "invalid":
            return invalidInput(result.errors);
          case "work_item_exists":
          case "branch_taken":
          case "unknown_repo":
            return problem(result.kind, result.detail);
        }
      },
    )
    .get(
      "/tasks",
      describeRoute({
        summary: "The tasks, newest first, page by page",
        responses: {
          200: jsonAnswer("A page; `next_cursor` is null on the last one.", taskList, {
            tasks: [exampleTask],
            next_cursor: exampleCursor,
          }),
          ...problemAnswers("invalid_input"),
        },
      }),
      queryParams(listQuery),
      async (c) => {
        const { tasks, nextCursor } = await api.listTasks(c.req.valid("query"));
        return c.json({
          tasks: tasks.map(toSnake),
          next_cursor: nextCursor === null ? null : encodeCursor(nextCursor),
        });
      },
    )
    .get(
      "/tasks/:task",
      describeRoute({
        summary: "One task with its jobs, runs and events",
        parameters: TASK_PARAM,
        responses: {
          200: jsonAnswer("The task and its history, oldest first.", taskWithHistory, {
            ...exampleTask,
            jobs: [exampleJob],
            runs: [exampleRun],
            events: [exampleEvent],
          }),
          ...problemAnswers("not_found"),
        },
      }),
      async (c) => {
        const key = taskKey(c.req.param("task"));
        const found = key === null ? null : await api.findTask(key);
        if (found === null) return problem("not_found", "There is no task with this id or work item id.");
        return c.json({
          ...toSnake(found.task),
          jobs: found.jobs.map(toSnake),
          runs: found.runs.map(toSnake),
          events: found.events.map(toSnake),
        });
      },
    );

const NEW_TASK = {
  ...exampleTask,
  head: null,
  stage: "analysis",
  lease_run_id: null,
  updated_at: exampleTask.created_at,
};

const LOCATION = {
  location: { description: "Where the task can be read.", schema: { type: "string" as const } },
};
