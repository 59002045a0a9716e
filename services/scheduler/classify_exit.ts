import type { AgentExit } from "./agent_process.ts";

/** What the end of an agent that nobody here asked for says about it. */
export type ExitClass =
  | { kind: "exited_ok" }
  /** The work's or the agent's own fault. */
  | { kind: "failed"; reason: string }
  /** Somebody outside ended it (the kernel out of memory, an operator): neither's fault. */
  | { kind: "tool_error"; code: "killed"; reason: string };

/** Signals that a program brings upon itself. */
const CRASHES: ReadonlySet<string> = new Set(["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"]);

/** Decides what an exit means where the agent was not ended by the scheduler; whoever ended it knows the outcome already. */
export const classifyExit = ({ code, signal }: AgentExit): ExitClass => {
  if (signal !== null) {
    return CRASHES.has(signal)
      ? { kind: "failed", reason: `the agent crashed (${signal})` }
      : {
          kind: "tool_error",
          code: "killed",
          reason: `the agent was ended by ${signal}, which the scheduler did not send${signal === "SIGKILL" ? " (was the memory full?)" : ""}`,
        };
  }
  if (code === 0) return { kind: "exited_ok" };
  return {
    kind: "failed",
    reason: code === null ? "the agent ended without an exit code" : `the agent exited with code ${code}`,
  };
};
