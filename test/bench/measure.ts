/** Times of one operation, in ms. */
export interface Times {
  p50: number;
  p99: number;
}

export interface Plan {
  /** How often each operation is timed in a round. */
  samples: number;
  rounds: number;
  warmUp: number;
}

/** One operation on one database. What stands before `timed` is not part of the time. */
export type Operation = (timed: <T>(work: () => Promise<T>) => Promise<T>) => Promise<void>;

/**
 * Times operations in turn, one sample of each after the other, so that what disturbs the machine disturbs all alike.
 * @returns for each its times, round by round.
 */
export const timeInTurn = async <K extends string>(
  operations: Readonly<Record<K, Operation>>,
  { samples, rounds, warmUp }: Plan,
): Promise<Record<K, Times[]>> => {
  const names = Object.keys(operations) as K[];
  const byName = <T>(make: () => T) => Object.fromEntries(names.map((name) => [name, make()])) as Record<K, T>;
  const results = byName<Times[]>(() => []);
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
    const times = byName<number[]>(() => []);
    for (let n = 0; n < samples; n++) {
      // By chance, or the garbage collector, which comes every so often, would always meet the same one.
      const order = Math.random() < 0.5 ? names : names.toReversed();
      for (const name of order) times[name].push(await sample(name));
    }
    for (const name of names) results[name].push(timesOf(times[name]));
  }
  return results;
};

/** The times of the quietest round: whatever else the machine does only ever adds time. */
export const quietest = (rounds: readonly Times[]): Times => ({
  p50: Math.min(...rounds.map(({ p50 }) => p50)),
  p99: Math.min(...rounds.map(({ p99 }) => p99)),
});

/**
 * How much longer the one takes than the other: the middle one of the ratios of each round, in which both met the same
 * disturbances. The quietest rounds of either, which may be different ones, say less.
 */
export const ratioOf = (key: keyof Times, rounds: readonly Times[], others: readonly Times[]): number => {
  const ratios = rounds.map((times, index) => times[key] / others[index]![key]).sort((a, b) => a - b);
  return ratios[Math.floor(ratios.length / 2)] ?? Number.NaN;
};

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
