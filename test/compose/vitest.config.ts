import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Apart from the suite that needs no container engine. The files share one engine and one container name: one after another.
export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  test: {
    include: ["test/compose/**/*.compose.ts"],
    globalSetup: "test/compose/setup.ts",
    pool: "forks",
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 300_000,
    allowOnly: false,
  },
});
