import { setTimeout as sleep } from "node:timers/promises";
import { findMatching } from "@orchestrator/shared/process/find_processes.ts";
import { FIRST_TO_GO_SCORE } from "@orchestrator/shared/process/first_to_go.ts";
import { type ProcessId, readCommandLine } from "@orchestrator/shared/process/proc_table.ts";

/**
 * Between an agent's exit 0 and the record of it in the database the scheduler may die, or be dead already; the kernel tells
 * only a parent how its child ended, so a parent that outlives the scheduler has to be there, or the agent's work would be
 * paid for a second time. It is a shell of a megabyte that starts in a millisecond (a runtime would take 40 of each), runs the
 * argv without looking at it (`"$@"`), and notes an exit 0 by appending a `0` to the file `$0`: one write of two bytes, for
 * which a full disk has room as well (`exit_notes.ts`). Before it ends it brings the file system of the workspace to the disk
 * (6 ms where little is to be written): the exit 0 is recorded in a database that outlives a power cut, and must not speak of
 * files that do not.
 *
 * It leads the agent's group and session, outlives the signals that an agent sends to its own group (`kill 0` in a script's
 * trap), and ends as the agent ended. A shell knows an end by a signal as the exit code 128 + n, so an agent that exits with
 * such a code by itself counts as ended by that signal: what wraps an agent (a script, a container engine) means just that.
 * Above SIGTERM (15) nothing is translated: among those are signals that stop a process instead of ending it. What the shell
 * itself has to say about an end is no output of the agent's and goes nowhere.
 */
const SCRIPT = `{ echo ${FIRST_TO_GO_SCORE} >/proc/self/oom_score_adj; } 2>/dev/null
trap told=1 HUP INT QUIT USR1 USR2 ALRM TERM
[ -z "\${told-}" ] || exit 143
exec 3>&2 2>/dev/null
(exec "$@" 2>&3 3>&-)
code=$?
case $code in
  0)
    echo 0 >>"$0"
    sync -f . >&2
    ;;
  129 | 13? | 14[0-3])
    ulimit -c 0
    trap - HUP INT QUIT USR1 USR2 ALRM TERM
    kill "-$((code - 128))" "$$"
    ;;
esac
exit "$code"`;

/** The program and arguments that run `file` with `args` under a keeper. */
export const underKeeper = (
  exitNote: string,
  file: string,
  args: readonly string[],
): { program: string; args: string[] } => ({ program: "/bin/sh", args: ["-c", SCRIPT, exitNote, file, ...args] });

/** How long a keeper is waited for until it has started its agent, and how often it is looked at, in ms. */
const START_MS = { longest: 2_000, poll: 2 };

/**
 * Resolves when the keeper has started its agent, or `isOver`. To be awaited before the agent is told to end: one that its
 * keeper starts a moment after the signals were sent would know nothing of them, and neither does a child of the keeper that
 * is not yet the agent's program.
 */
export const untilAgentRuns = async (keeper: ProcessId, isOver: () => boolean): Promise<void> => {
  const deadline = performance.now() + START_MS.longest;
  while (!isOver() && performance.now() < deadline) {
    // Until its exec the child has the keeper's words, and in the middle of that none.
    const notYet = ["", readCommandLine(keeper.pid)?.join("\0") ?? ""];
    const children = [...findMatching(({ ppid }) => ppid === keeper.pid)];
    if (children.some(({ pid }) => !notYet.includes(readCommandLine(pid)?.join("\0") ?? ""))) return;
    await sleep(START_MS.poll);
  }
};
