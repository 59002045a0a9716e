import { FencedOffError } from "./check_epoch.ts";
import { StorageBusyError } from "./connection.ts";
import type { Storage, Tx } from "./storage.ts";

/** So many are written at once at most. */
const MAX_GATHERED = 128;

interface Waiting<T, R> {
  item: T;
  resolve: (result: R) => void;
  reject: (error: unknown) => void;
}

/**
 * Makes a write of one out of a write of many: whoever waits when it begins is written by the same statements, and each is
 * answered after the commit.
 * @param work may run more than once, like every write, and answers for each item in turn.
 */
export const gather = <T, R>(
  storage: Pick<Storage, "write">,
  work: (tx: Tx, items: readonly T[]) => Promise<readonly R[]>,
): ((item: T) => Promise<R>) => {
  let waiting: Waiting<T, R>[] = [];

  const write = async (batch: () => readonly Waiting<T, R>[]): Promise<void> => {
    try {
      const results = await storage.write((tx) =>
        work(
          tx,
          batch().map(({ item }) => item),
        ),
      );
      for (const [index, { resolve }] of batch().entries()) resolve(results[index] as R);
    } catch (error) {
      const alone = batch().length === 1 || error instanceof FencedOffError || error instanceof StorageBusyError;
      // What is wrong with one must not befall the others.
      if (alone) for (const { reject } of batch()) reject(error);
      else for (const one of batch()) void write(() => [one]);
    }
  };

  const takeOnce = (): (() => readonly Waiting<T, R>[]) => {
    let batch: readonly Waiting<T, R>[] | null = null;
    return () => {
      if (batch === null) {
        batch = waiting.slice(0, MAX_GATHERED);
        waiting = waiting.slice(MAX_GATHERED);
        if (waiting.length > 0) void write(takeOnce());
      }
      return batch;
    };
  };

  return (item) =>
    new Promise<R>((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (waiting.length === 1) void write(takeOnce());
    });
};
