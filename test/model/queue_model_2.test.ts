import { test } from "vitest";
import { runModel } from "./run_model.ts";

// In two files, since these are the longest tests there are and files run side by side.
const runs = Number(process.env["MODEL_RUNS"] ?? 500);
const seed = Number(process.env["MODEL_SEED"] ?? 2026) + 1;

test(
  `the queue does what its model says, in ${runs} runs of steps in any order, seed ${seed}`,
  { timeout: 600_000 },
  () => runModel({ seed, runs }),
);
