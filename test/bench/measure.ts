/** Times of one operation, in ms. */
export interface Times {
  p50: number;
  p99: number;
}

export interface Plan {
  /** How often each operation is timed in a round. */
  samples: number;
  /** The quietest round counts: whatever else the machine does only ever adds time. */
  rounds: number;
  warmUp: number;
}

/** One operation on one database. What stands before `timed` is not part of the time. */
export type Operation = (timed: <T>(work: () => Promise<T>) => Promise<T>) => Promise<void>;

/**
 * Times operations in turn, one sample of each after the other, so that what disturbs the machine disturbs all alike.
 * @returns for each the times of its quietest round.
 */
export const timeInTurn = async <K extends string>(
  operations: Readonly<Record<K, Operation>>,
  { samples, rounds, warmUp }: Plan,
): Promise<Record<K, Times>> => {
  const names = Object.keys(operations) as K[];
  const best = {} as Record<K, Times>;
  const sample = async (name: K): Promise<number> => {
    let ms = Number.NaN;
    await operations[name](async (work) => {
      const began = performance.now();
      const result = await work();
      ms = performance.now() - began;
      return result;
    });
    return ms;
  };
  for (let n = 0; n < warmUp; n++) for (const name of names) await sample(name);
  for (let round = 0; round < rounds; round++) {
    const times = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<K, number[]>;
    for (let n = 0; n < samples; n++) {
      // Whoever comes second finds the processor's caches as the first has left them.
      const order = n % 2 === 0 ? names : names.toReversed();
      for (const name of order) times[name].push(await sample(name));
    }
    for (const name of names) best[name] = quieter(best[name], timesOf(times[name]));
  }
  return best;
};

const quieter = (a: Times | undefined, b: Times): Times =>
  a === undefined ? b : { p50: Math.min(a.p50, b.p50), p99: Math.min(a.p99, b.p99) };

const timesOf = (samples: number[]): Times => {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99) };
};

export const round = (value: number, digits = 3): number => Number(value.toFixed(digits));

/** One figure, one line of JSON. */
export const print = (figure: Record<string, unknown>): void => {
  process.stdout.write(`${JSON.stringify(figure)}\n`);
};
