/**
 * Holds for a row of `agent_runs` whose run ended by something around it (a restart, a failing push, a hung or lost finalizer),
 * not by its work: nobody has judged what its agent did. True or false for every row, also one without an outcome.
 */
export const CUT_SHORT = "(outcome IS 'interrupted' OR outcome IS 'tool_error' OR outcome_class IS 'lost')";
