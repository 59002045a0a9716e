import { isAlive, type ProcessId, readProcess } from "@orchestrator/shared/process/proc_table.ts";

/**
 * Processes of ended runs that could not be ended themselves (another user's, as under `sudo`, or stuck in the kernel), by the
 * workspace in which they may still be at work. By their marks they would not be found again: what is another user's shows
 * neither its environment nor where it works, and the leader of its session is gone. Kept in memory, for as long as they live.
 */
export class Survivors {
  readonly #byWorkspace = new Map<string, ProcessId[]>();

  note(workspace: string, pids: readonly number[]): void {
    const found = pids.flatMap((pid) => {
      const entry = readProcess(pid);
      return entry === null ? [] : [{ pid, started: entry.started }];
    });
    if (found.length > 0) this.#byWorkspace.set(workspace, [...this.#alive(workspace), ...found]);
  }

  /** The pids of those that are still there. */
  in(workspace: string): number[] {
    const alive = this.#alive(workspace);
    if (alive.length === 0) this.#byWorkspace.delete(workspace);
    return alive.map(({ pid }) => pid);
  }

  #alive(workspace: string): ProcessId[] {
    return (this.#byWorkspace.get(workspace) ?? []).filter(({ pid, started }) => isAlive(pid, started));
  }
}
