import { eventSchema, jobSchema, runSchema, taskSchema } from "@orchestrator/shared/schemas/rows.ts";
import * as v from "valibot";

/** The rows under the names that they have in the API's document. */
export const task = v.pipe(taskSchema, v.metadata({ ref: "Task" }));
export const job = v.pipe(jobSchema, v.metadata({ ref: "Job" }));
export const run = v.pipe(runSchema, v.metadata({ ref: "Run" }));
export const event = v.pipe(eventSchema, v.metadata({ ref: "Event" }));

export const nextCursor = v.nullable(v.string());
