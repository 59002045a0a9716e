import { type StdioOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { UnusableError } from "@orchestrator/shared/unusable.ts";

export interface TarOptions {
  stdio: StdioOptions;
  signal: AbortSignal;
  /** What it means where tar fails, and what to do then. */
  failure: { found: string; todo: string };
}

/**
 * Runs tar and waits for its end, also where the signal has it ended: what it works on may be removed afterwards.
 * @throws the signal's reason; {UnusableError} where tar failed.
 */
export const runTar = async (args: readonly string[], { stdio, signal, failure }: TarOptions): Promise<void> => {
  signal.throwIfAborted();
  const tar = spawn("tar", args, { stdio });
  const end = () => tar.kill();
  signal.addEventListener("abort", end, { once: true });
  try {
    const [code] = (await once(tar, "exit")) as [number | null];
    signal.throwIfAborted();
    if (code !== 0) throw new UnusableError(`${failure.found} (tar ended with ${code ?? "a signal"})`, failure.todo);
  } finally {
    signal.removeEventListener("abort", end);
  }
};
