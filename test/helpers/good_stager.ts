import { writeFrontmatter } from "@orchestrator/shared/frontmatter.ts";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { type StagingCallSeen, startFakeStager } from "./fake_stager.ts";
import type { Site } from "./scheduler.ts";

/** Where the staging log of the item `ORCH-1` stands. */
export const STAGING_LOG = "docs/work-items/ORCH-1/15-staging-log.md";

export const sendStarted = (call: StagingCallSeen, commit: string): void =>
  call.send({
    event: "started",
    ...{ job_id: call.request.job_id, run_id: call.request.run_id, commit },
    ...{ branch: "work/ORCH-1", at: "2026-01-01T00:00:00.000Z" },
  });

export const sendSuccess = (call: StagingCallSeen, commit: string): void => {
  const frontmatter = {
    ...{ work_item: "ORCH-1", stage: "deploy-staging", author_agent: "staging-runner", status: "completed" },
    ...{ created_at: "2026-01-01", model_used: "n/a", staging_status: "SUCCESS", run_id: call.request.run_id, commit },
  };
  call.send({
    ...{ event: "result", verdict: "success", class: null, action: "advance", reason: "all passed", commit },
    artifact: { path: STAGING_LOG, content: writeFrontmatter(frontmatter, "# Staging log\n") },
  });
};

/**
 * A stager that reads what it is to test of the item `ORCH-1` from the database, as the real one does, and finds it good.
 * `tested` is what it was asked to test, in this order.
 */
export const startGoodStager = async (site: Site): Promise<{ url: string; tested: string[] }> => {
  const tested: string[] = [];
  const { url } = await startFakeStager(async (call) => {
    const reader = await openReadOnly(site.config.dbUrl, null);
    const [task] = await reader.query<{ head: string }>("SELECT head FROM tasks WHERE id = ?", [call.request.task_id]);
    await reader.close();
    tested.push(task!.head);
    sendStarted(call, task!.head);
    sendSuccess(call, task!.head);
    call.end();
  });
  return { url, tested };
};
