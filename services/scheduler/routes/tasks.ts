import { toCamel, toSnake } from "@orchestrator/shared/case.ts";
import { TASK_STATUSES } from "@orchestrator/shared/domain.ts";
import { cursorParam, encodeCursor } from "@orchestrator/shared/http/cursor.ts";
import { BODY_PROBLEMS, jsonAnswer, problemAnswers } from "@orchestrator/shared/http/document.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { jsonBody } from "@orchestrator/shared/http/json_body.ts";
import { invalidInput, problem } from "@orchestrator/shared/http/problem.ts";
import { queryParams, wholeNumberParam } from "@orchestrator/shared/http/query_params.ts";
import { newTaskSchema } from "@orchestrator/shared/schemas/new_task.ts";
import { eventSchema, jobSchema, runSchema, taskSchema } from "@orchestrator/shared/schemas/rows.ts";
import { cleanText, workItemId } from "@orchestrator/shared/schemas/text.ts";
import { Hono } from "hono";
import { describeRoute } from "hono-openapi";
import * as v from "valibot";
import type { Routes } from "./routes.ts";

const task = v.pipe(taskSchema, v.metadata({ ref: "Task" }));
const taskList = v.object({ tasks: v.array(task), next_cursor: v.nullable(v.string()) });
const taskWithHistory = v.pipe(
  v.object({
    ...taskSchema.entries,
    jobs: v.array(v.pipe(jobSchema, v.metadata({ ref: "Job" }))),
    runs: v.array(v.pipe(runSchema, v.metadata({ ref: "Run" }))),
    events: v.array(v.pipe(eventSchema, v.metadata({ ref: "Event" }))),
  }),
  v.metadata({ ref: "TaskWithHistory" }),
);

const listQuery = v.strictObject({
  status: v.exactOptional(v.picklist(TASK_STATUSES)),
  stage: v.exactOptional(v.pipe(cleanText(100), v.minLength(1))),
  limit: wholeNumberParam({ min: 1, max: 200, absent: 50 }),
  cursor: v.exactOptional(cursorParam),
});

/** An id or a work item id; no task has a name that is neither. */
const isTaskKey = (text: string): boolean =>
  /^\d+$/.test(text) ? Number.isSafeInteger(Number(text)) : v.is(workItemId, text);

export const taskRoutes: Routes = ({ api }) =>
  new Hono<HttpEnv>()
    .post(
      "/tasks",
      describeRoute({
        summary: "Hand in a work item",
        responses: {
          201: { ...jsonAnswer("The task, whose first job is queued.", task), headers: LOCATION },
          ...problemAnswers(...BODY_PROBLEMS, "work_item_exists", "branch_taken", "unknown_repo"),
        },
      }),
      jsonBody(newTaskSchema),
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
        summary: "The tasks, page by page",
        responses: {
          200: jsonAnswer("A page; `next_cursor` is null on the last one.", taskList),
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
        parameters: [
          {
            in: "path",
            name: "task",
            required: true,
            schema: { type: "string" },
            description: "The id (digits) or the work item id.",
          },
        ],
        responses: { 200: jsonAnswer("The task and its history.", taskWithHistory), ...problemAnswers("not_found") },
      }),
      async (c) => {
        const key = c.req.param("task");
        const found = isTaskKey(key) ? await api.findTask(key) : null;
        if (found === null) return problem("not_found", "There is no task with this id or work item id.");
        return c.json({
          ...toSnake(found.task),
          jobs: found.jobs.map(toSnake),
          runs: found.runs.map(toSnake),
          events: found.events.map(toSnake),
        });
      },
    );

const LOCATION = {
  location: { description: "Where the task can be read.", schema: { type: "string" as const } },
};
