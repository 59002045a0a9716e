export const localBranch = (branch: string): string => `refs/heads/${branch}`;

/** What the last fetch saw at the remote. */
export const remoteBranch = (branch: string): string => `refs/remotes/origin/${branch}`;
