/**
 * `node bundle.mjs <folder>`: every entry point as one file that needs no packages, at the path of its source, so that what a
 * file finds beside itself is found there too; and beside them the one part that cannot be bundled, libSQL's native library.
 */
import { cp, glob } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";

const [out] = process.argv.slice(2);

await build({
  entryPoints: await Array.fromAsync(glob(["services/*/main.ts", "test/demo/in_containers.ts"])),
  outbase: ".",
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node24",
  // Packages in the older module format load parts of Node, and libSQL its library, by `require`.
  banner: { js: 'import { createRequire } from "node:module";\nconst require = createRequire(import.meta.url);' },
  legalComments: "none",
  logLevel: "warning",
});

/** What is found by its path, and where it goes. The image is Debian's, so the library is the one for its C library. */
const library = `node_modules/@libsql/linux-${process.arch}-gnu`;
const COPIED = {
  [library]: library,
  "services/orchestrator.sample.yaml": "services/orchestrator.sample.yaml",
  "test/demo/sample": "test/demo/sample",
  "test/demo/scripted_agent.js": "test/demo/scripted_agent.js",
  "test/demo/containers.yaml": "demo.yaml",
};
for (const [from, to] of Object.entries(COPIED)) await cp(from, join(out, to), { recursive: true });
