import { createLog } from "@orchestrator/shared/log.ts";
import type { Claim } from "@orchestrator/shared/storage/claim_job.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import { expect, test, vi } from "vitest";
import { ActiveRun, ActiveRuns } from "../../services/scheduler/active_runs.ts";
import { endRuns } from "../../services/scheduler/end_runs.ts";
import { FinalizerLiveness } from "../../services/scheduler/finalizer_liveness.ts";
import { FakeClock } from "../helpers/fake_clock.ts";

const LONGER_THAN_ALLOWED_MS = 5_001;

test("a write that waits in the queue while others' go through is waited for; once none does any more, it is not", async () => {
  const clock = new FakeClock();
  const activeRuns = new ActiveRuns();
  const liveness = new FinalizerLiveness(clock);
  const committed = new Set<() => void>();
  const storage: Pick<Storage, "onCommitted"> = {
    onCommitted: (listener) => {
      const tell = (): void => listener({ events: [] } as never);
      committed.add(tell);
      return () => committed.delete(tell);
    },
  };
  const run = new ActiveRun({ job: { id: 1 }, run: { id: 1 }, task: { id: 1 } } as Claim, clock);
  activeRuns.add(run);
  run.finalizing();
  const abort = new AbortController();
  abort.signal.addEventListener("abort", () => activeRuns.remove(run));
  liveness.mark(1, { runId: 1, stage: "analysis", abort });
  liveness.hold(1, 1, "write");

  const looking = vi.spyOn(clock, "monotonicMs");
  const onUnwritable = vi.fn();
  const context = {
    activeRuns,
    liveness,
    storage: storage as Storage,
    clock,
    log: createLog({ level: "silent", service: "scheduler", secrets: [] }),
  };
  const ending = endRuns(context, { drainMs: 0, fencedOff: new AbortController().signal, onUnwritable });
  clock.advance(LONGER_THAN_ALLOWED_MS);
  for (const tell of committed) tell();
  const before = looking.mock.calls.length;
  await expect.poll(() => looking.mock.calls.length, { timeout: 20_000 }).toBeGreaterThan(before + 1);
  expect(abort.signal.aborted).toBe(false);

  clock.advance(LONGER_THAN_ALLOWED_MS);
  await ending;
  expect(abort.signal.reason).toMatchObject({ code: "unwritten" });
  expect(onUnwritable).toHaveBeenCalledTimes(1);
  expect(committed.size).toBe(0);
});
