// The classes of a run's outcome (`agent_runs.outcome_class`) by which something is decided, beside the prefix `git`, which
// stands for the repository. There are more, for people: those of tool errors are named where they are thrown.

/** Nobody works on the job any more, and how its run ended nobody saw. */
export const LOST = "lost";

/** The branch has a commit of somebody else's. */
export const FOREIGN_COMMIT = "foreign_commit";

/** The verdict was of another commit than the branch's. */
export const BRANCH_MOVED = "branch_moved";

/** A finalizer that hung was given up. */
export const FINALIZER_EXPIRED = "finalizer_expired";

/** The stager is waited for: a `tool_error` without a bound, since it says nothing about the work. */
export const STAGER_UNREACHABLE = "stager_unreachable";

/** The database was away: everybody's at once. */
export const DATABASE = "database";

/** The text of the repository that replaces an agent's role cannot be used. */
export const PROMPT_OVERRIDE = "prompt_override";
