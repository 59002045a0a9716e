export interface WaitOptions {
  /** Ends the waiting (not the work) with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Told `true` when the waiting begins and `false` when it is over; not called where nothing has to be waited for. */
  onWait?: ((waiting: boolean) => void) | undefined;
}

/** One holder at a time, in the order of asking; whoever waits may give up. Not reentrant. */
export class FifoLock {
  #held = false;
  readonly #waiting: (() => void)[] = [];

  /** Runs `work` alone and hands the lock on when it has ended, however it ended. */
  async run<T>(work: () => Promise<T>, options: WaitOptions = {}): Promise<T> {
    await this.#take(options);
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#held = false;
      else next();
    }
  }

  async #take({ signal, onWait }: WaitOptions): Promise<void> {
    signal?.throwIfAborted();
    if (!this.#held) {
      this.#held = true;
      return;
    }
    onWait?.(true);
    try {
      await new Promise<void>((resolve, reject) => {
        const granted = (): void => {
          signal?.removeEventListener("abort", givenUp);
          resolve();
        };
        const givenUp = (): void => {
          this.#waiting.splice(this.#waiting.indexOf(granted), 1);
          reject(signal?.reason);
        };
        this.#waiting.push(granted);
        signal?.addEventListener("abort", givenUp, { once: true });
      });
    } finally {
      onWait?.(false);
    }
  }
}
