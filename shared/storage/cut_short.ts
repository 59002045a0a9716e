import { FOREIGN_COMMIT, LOST } from "../outcome_class.ts";

/**
 * Holds for a row of `agent_runs` whose run ended by something around it, not by its work: a restart, a failing push, a hung or
 * lost finalizer, a branch that somebody else, or another run, had moved. Nobody has judged what its agent did. True or false
 * for every row, also one without an outcome.
 */
export const CUT_SHORT =
  "(coalesce(outcome, '') IN ('interrupted', 'tool_error', 'superseded')" +
  ` OR coalesce(outcome_class, '') IN ('${LOST}', '${FOREIGN_COMMIT}'))`;
