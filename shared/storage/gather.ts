import { isPassing } from "./is_passing.ts";
import type { Storage } from "./storage.ts";
import type { Tx } from "./tx.ts";

/** So many are written at once at most. */
const MAX_GATHERED = 128;

interface Waiting<T, R> {
  item: T;
  resolve: (result: R) => void;
  reject: (error: unknown) => void;
}

/**
 * Makes a write of one out of a write of many: whoever waits when it begins is written by the same statements, and each is
 * answered after the commit. Where `work` fails because of one of them, each is written again by itself.
 * @param work may run more than once, like every write, and answers for each item in turn.
 */
export const gather = <T, R>(
  storage: Pick<Storage, "write">,
  work: (tx: Tx, items: readonly T[]) => Promise<readonly R[]>,
): ((item: T) => Promise<R>) => {
  let waiting: Waiting<T, R>[] = [];

  const write = async (batch: () => readonly Waiting<T, R>[]): Promise<void> => {
    /** What `work` itself has thrown. */
    let thrown: unknown;
    try {
      const results = await storage.write(async (tx) => {
        const items = batch().map(({ item }) => item);
        return work(tx, items).catch((error: unknown) => {
          thrown = error;
          throw error;
        });
      });
      for (const [index, { resolve }] of batch().entries()) resolve(results[index] as R);
    } catch (error) {
      // What is wrong with one must not befall the others. What is wrong with none of them befalls each: after a commit whose
      // answer was lost a second try would find its own first, and say that somebody else was faster.
      const isOfOne = error === thrown && !isPassing(error);
      if (isOfOne && batch().length > 1) for (const one of batch()) void write(() => [one]);
      else for (const { reject } of batch()) reject(error);
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
