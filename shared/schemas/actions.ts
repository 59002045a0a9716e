import * as v from "valibot";
import { cleanText } from "./text.ts";

/** What a person says to others and to agents: it stands in the history and in prompts. */
const remark = v.pipe(cleanText(10_000), v.regex(/\S/, "must not be blank"));
const name = v.pipe(cleanText(100), v.minLength(1));

/** The body of `POST /tasks/{id}/cancel`. */
export const cancelSchema = v.strictObject({ reason: v.exactOptional(remark) });

/** The body of `POST /tasks/{id}/retry`. */
export const retrySchema = v.strictObject({
  note: v.exactOptional(v.pipe(remark, v.description("For the agent: it goes into the prompt."))),
});

/** The body of `POST /tasks/{id}/approve`. */
export const approveSchema = v.strictObject({
  stage: v.pipe(name, v.description("The stage in which the task waits: what is approved is what was looked at.")),
});

/** The body of `POST /tasks/{id}/return`. */
export const returnSchema = v.strictObject({
  to: v.pipe(name, v.description("A stage before the one where the task stands.")),
  reason: v.pipe(remark, v.description("For the agent: it goes into the prompt.")),
});

/** The body of `POST /queue/pause` and `POST /queue/resume`. Nothing named means all. */
export const pauseTargetSchema = v.strictObject({
  agent: v.exactOptional(name),
  repo: v.exactOptional(name),
  staging: v.exactOptional(v.pipe(v.literal(true), v.description("The staging runner: jobs of `deploy-staging`."))),
  reason: v.exactOptional(remark),
});
export type PauseRequest = v.InferOutput<typeof pauseTargetSchema>;
