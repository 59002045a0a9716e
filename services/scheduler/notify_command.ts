import type { Clock } from "@orchestrator/shared/clock.ts";
import { childEnvironment } from "@orchestrator/shared/process/child_environment.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import type { Deliver } from "./notifier.ts";
import { type BoundedResult, runBounded } from "./run_bounded.ts";

export interface CommandTarget {
  command: readonly [string, ...string[]];
  /** Where it runs: the folder of the configuration file, to which its relative paths are relative. */
  cwd: string;
  parentEnv: Readonly<Record<string, string>>;
  /** Where its input and its output have a name for a moment. */
  tempFolder: string;
  /** Carried by the process, so that what a killed scheduler left can be found and ended. */
  instanceId: string;
  clock: Clock;
  /** Default 30 s. */
  timeoutMs?: number;
  /** From SIGTERM to SIGKILL, in ms. Default 2 s. */
  graceMs?: number;
}

const MAX_OUTPUT_CHARS = 500;

/**
 * Runs a command for each notification, once, with the notification as JSON on its standard input. Whatever it leaves in its
 * process group is ended with it. It is not run again where it fails: it may have done half of what it does.
 */
export const createCommandDelivery = (target: CommandTarget): Deliver => {
  const { command, cwd, parentEnv, tempFolder, instanceId, clock, timeoutMs = 30_000, graceMs = 2_000 } = target;
  const env = childEnvironment(parentEnv, { ORCH_INSTANCE_ID: instanceId });
  return async function deliverToCommand(notification, signal) {
    const input = `${JSON.stringify(notification)}\n`;
    try {
      const limits = { timeoutMs, graceMs, clock, signal };
      const result = await runBounded({ argv: command, cwd, env, input, tempFolder, ...limits });
      const reason = whyFailed(result, timeoutMs);
      signal.throwIfAborted();
      return reason === null ? { kind: "delivered", tries: 1 } : { kind: "failed", tries: 1, reason };
    } catch (error) {
      if (error instanceof ToolError) return { kind: "failed", tries: 1, reason: error.message };
      throw error;
    }
  };
};

const whyFailed = ({ ending, output }: BoundedResult, timeoutMs: number): string | null => {
  const said = output.trim() === "" ? "" : `: ${output.trim().slice(-MAX_OUTPUT_CHARS)}`;
  switch (ending.kind) {
    case "exited":
      return ending.code === 0 ? null : `the command exited with ${ending.code}${said}`;
    case "signalled":
      return `the command was ended by ${ending.signal}${said}`;
    case "timed_out":
      return `the command did not end within ${timeoutMs} ms${said}`;
    case "aborted":
      return "the command was ended, since the scheduler stops";
  }
};
