/**
 * `npm run demo [-- --runtime node|deno] [-- --fail-staging]`: both services, a scripted agent and a sample project in a
 * temporary directory; one work item goes from `analysis` to `done` and is shown as it goes. Nothing is left behind.
 */
import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Display, makeDisplay } from "./display.ts";
import { findLeftovers, killLeftovers } from "./leftovers.ts";
import { type PlayOptions, play, type Scene } from "./play.ts";
import { isRuntime, ownRuntime, RUNTIMES } from "./runtimes.ts";

const TIME_LIMIT_MS = 120_000;
const KILL_WITHIN_MS = 10_000;
const LOG_LINES_SHOWN = 30;
const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;
const USAGE = `usage: npm run demo -- [--runtime ${RUNTIMES.join("|")}] [--fail-staging]`;

type Options = Pick<PlayOptions, "runtime" | "failStaging">;

/** The options, or what is wrong with the arguments. */
const readOptions = (args: string[]): Options | string => {
  const options = {
    runtime: { type: "string", default: ownRuntime() },
    "fail-staging": { type: "boolean", default: false },
  } as const;
  try {
    const { values } = parseArgs({ args, options });
    if (!isRuntime(values.runtime)) return `--runtime ${values.runtime}: expected ${RUNTIMES.join(" or ")}`;
    return { runtime: values.runtime, failStaging: values["fail-staging"] };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return error.message;
  }
};

/** Ends the services; gives what was not as it should be: one that did not exit with 0, a process that is left. */
const stopServices = async (scene: Scene, directory: string): Promise<string[]> => {
  const faults: string[] = [];
  await Promise.all(
    scene.services.map(async (service) => {
      const ending = await service.stop();
      if (ending !== "exit code 0") faults.push(`the ${service.name} ended with ${ending}, expected exit code 0`);
    }),
  );
  return [...faults, ...findLeftovers(directory).map(({ pid, command }) => `left running: ${pid} ${command}`)];
};

/** All that helps to see why: the faults, what happened to the task, and the end of each log. */
const explain = async (display: Display, faults: string[], scene: Scene): Promise<void> => {
  display.section("what went wrong", faults.join("\n"));
  const events = (scene.task?.events ?? []).map(({ at, kind, detail }) => `${at} ${kind} ${JSON.stringify(detail)}`);
  display.section("events of the task", events.join("\n") || "(none)");
  for (const service of scene.services) {
    display.section(`last lines of the ${service.name}`, (await service.lastLines(LOG_LINES_SHOWN)).join("\n"));
  }
};

/**
 * The signal that ends the demo early: on a signal of the terminal or a supervisor, on `stop`, and where nobody reads the
 * output any more, which would otherwise end this process with both services running.
 */
const interruption = () => {
  const controller = new AbortController();
  let interrupted = false;
  const stop = (reason: string) => controller.abort(reason);
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      interrupted = true;
      stop(`interrupted by ${name}`);
    });
  }
  process.stdout.on("error", ({ message }) => stop(`the output cannot be written: ${message}`));
  return { signal: controller.signal, stop, interrupted: () => interrupted };
};

const runDemo = async (options: Options): Promise<number> => {
  const display = makeDisplay(
    (text) => process.stdout.write(text),
    () => performance.now(),
  );
  const { signal, stop, interrupted } = interruption();
  const timeLimit = setTimeout(() => stop(`not done after ${TIME_LIMIT_MS / 1000} s`), TIME_LIMIT_MS);
  const directory = await realpath(await mkdtemp(join(tmpdir(), "orchestrator-demo-")));
  const scene: Scene = { services: [], task: null };
  const faults: string[] = [];
  try {
    display.line(`${options.runtime}, everything in ${directory}`);
    await Promise.all([mkdir(join(directory, "home")), mkdir(join(directory, "tmp"))]);
    await play({ ...options, directory, display, signal }, scene);
  } catch (error) {
    // What an abort throws depends on what was waited for; its reason says why.
    if (signal.aborted) faults.push(String(signal.reason));
    else faults.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  } finally {
    clearTimeout(timeLimit);
  }
  faults.push(...(await stopServices(scene, directory)));
  if (faults.length > 0) await explain(display, faults, scene);
  await killLeftovers(directory, KILL_WITHIN_MS);
  await rm(directory, { recursive: true, maxRetries: 3 });
  if (faults.length > 0) return interrupted() ? EXIT.interrupted : EXIT.failed;
  display.section("ended", "both services exited with 0, no process is left, the directory is removed");
  return EXIT.ok;
};

const options = readOptions(process.argv.slice(2));
if (typeof options === "string") {
  process.stderr.write(`${options}\n${USAGE}\n`);
  process.exitCode = EXIT.usage;
} else {
  process.exitCode = await runDemo(options);
}
