import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// One suite for both runtimes: `npm test` runs it under Node, `npm run test:deno` runs the same files under Deno.
export default defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: {
    include: ["test/**/*.test.ts"],
    pool: "forks",
    // Much of the time is spent waiting for processes and for git, so two files share what cores there are.
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    allowOnly: false,
  },
});
