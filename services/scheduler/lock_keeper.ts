import type { Log } from "@orchestrator/shared/log.ts";
import { FencedOffError } from "@orchestrator/shared/storage/check_epoch.ts";
import type { KernelLock } from "@orchestrator/shared/storage/kernel_lock.ts";
import type { Storage } from "@orchestrator/shared/storage/storage.ts";
import type { Tenure } from "./lease_keeper.ts";

/** How often the holder of the lock looks after its file, in ms: for so long two schedulers may not know of each other. */
const LOOK_MS = 2_000;

/**
 * Holds the lock of a file database, which the kernel keeps for as long as the process lives. What it cannot keep is the lock
 * file's place: once somebody has removed the file, a second scheduler can start. So it is looked after, and where it is not
 * in its place any more the fence tells whether there is one already.
 */
export class LockKeeper implements Tenure {
  readonly #lock: KernelLock;
  readonly #storage: Pick<Storage, "checkFence">;
  readonly #log: Log;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #looking: Promise<void> = Promise.resolve();
  #stopped = false;
  /** What was wrong at the last look, and has been logged. */
  #fault: string | null = null;

  constructor(options: { lock: KernelLock; storage: Pick<Storage, "checkFence">; log: Log }) {
    this.#lock = options.lock;
    this.#storage = options.storage;
    this.#log = options.log;
    this.#schedule();
  }

  /** Whoever has the lock may go on; before what cannot be taken back the fence is read in any case. */
  async confirm(): Promise<void> {}

  fault(): string | null {
    return this.#fault === null ? null : `the lock file keeps other schedulers off no longer: ${this.#fault}`;
  }

  /** The lock itself is held until its database has been closed. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  /** Never rejects: that another scheduler has taken over is told by the storage, and else it is looked again. */
  async look(): Promise<void> {
    const fault = await this.#lock.findFault();
    const isNew = fault !== this.#fault;
    this.#fault = fault;
    if (fault === null) return;
    const { path } = this.#lock;
    if (isNew)
      this.#log.error(
        { path },
        `the lock file ${path} keeps other schedulers off no longer: ${fault}. Restart this scheduler, so that it takes ` +
          "the lock anew, and leave the file where it is while one runs",
      );
    await this.#storage.checkFence().catch((error: unknown) => {
      if (error instanceof FencedOffError) return;
      this.#log.error({ err: error }, "whether another scheduler has taken over could not be read; looking again");
    });
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#looking = this.look().finally(() => this.#schedule());
    }, LOOK_MS);
  }
}
