/** Where the commit of a run that exited 0 is kept: what the finalizer begins with when it begins again. */
export const runRef = (runId: number): string => `refs/orchestrator/runs/${runId}`;

/** Where everything else that a run left is kept. */
export const wipRef = (runId: number): string => `refs/orchestrator/wip/${runId}`;

/** Where what stood under a run's number before the run had begun has been moved. */
export const asideRef = (runId: number, commit: string): string => `refs/orchestrator/old/${runId}/${commit}`;

/** What was made of a branch's commit to be squashed into the base branch, which has no trace of the branch in its history. */
export const squashRef = (commit: string): string => `refs/orchestrator/squashed/${commit}`;
