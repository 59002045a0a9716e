import * as v from "valibot";
import type { CamelKeys } from "../case.ts";
import { isBranchName } from "../git_branch_name.ts";
import { cleanText, workItemId } from "./text.ts";

/** A ref is a file for git, and a file name has at most 255 bytes, of which `.lock` needs some. */
const MAX_BRANCH_BYTES = 240;

const branchName = v.pipe(
  v.string(),
  v.check(isBranchName, "must be a branch name that `git check-ref-format --branch` accepts"),
  v.check(
    (name) => new TextEncoder().encode(name).length <= MAX_BRANCH_BYTES,
    `must be at most ${MAX_BRANCH_BYTES} bytes long`,
  ),
  v.description("What `git check-ref-format --branch` accepts, at most 240 bytes."),
);

/** The body of `POST /tasks`. What needs the configuration to judge (repository, stage, default branch) is judged later. */
export const newTaskSchema = v.strictObject({
  work_item_id: workItemId,
  title: v.pipe(cleanText(500), v.regex(/\S/, "must not be blank")),
  description: v.optional(cleanText(100_000), ""),
  /** A repository that the configuration names. */
  repo: v.pipe(cleanText(100), v.minLength(1)),
  /** Absent: `work/<work_item_id>`. */
  branch: v.exactOptional(branchName),
  /** Absent: the repository's. */
  base_branch: v.exactOptional(branchName),
  priority: v.optional(v.pipe(v.number(), v.integer(), v.minValue(-1000), v.maxValue(1000)), 0),
  /** Absent: the first of the pipeline. */
  stage: v.exactOptional(v.pipe(cleanText(100), v.minLength(1))),
});
export type NewTask = CamelKeys<v.InferOutput<typeof newTaskSchema>>;
