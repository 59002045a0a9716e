/** Lets many wait for the next change of one thing, each for as long as it likes. */
export class ChangeSignal {
  readonly #waiting = new Set<() => void>();

  /** How many wait now. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Wakes all that wait. */
  notify(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  /**
   * @param timeoutMs how long to wait at most, in ms; absent: for ever.
   * @returns true at the next `notify()`, false when the time has passed or the signal is aborted.
   */
  wait({ signal, timeoutMs }: { signal: AbortSignal; timeoutMs?: number }): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false);
    return new Promise((resolve) => {
      const end = (notified: boolean): void => {
        this.#waiting.delete(wake);
        signal.removeEventListener("abort", giveUp);
        clearTimeout(timer);
        resolve(notified);
      };
      const wake = (): void => end(true);
      const giveUp = (): void => end(false);
      const timer = timeoutMs === undefined ? undefined : setTimeout(giveUp, timeoutMs);
      this.#waiting.add(wake);
      signal.addEventListener("abort", giveUp, { once: true });
    });
  }
}
