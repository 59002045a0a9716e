/** Signals that a program brings upon itself: its own fault. By every other somebody else has ended it. */
export const CRASH_SIGNALS: ReadonlySet<string> = new Set(["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"]);
