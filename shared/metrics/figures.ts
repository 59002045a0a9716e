import { Counter, Gauge, type Registry } from "prom-client";

/** The values of a metric's series, by the values of its label. */
export type Series = Readonly<Record<string, number>>;

/** A metric that shows what somebody else keeps: it holds nothing itself and is brought up to date when it is asked for. */
export type Figure<Seen> = { type: "gauge" | "counter"; name: string; help: string } & (
  | { of: (seen: Seen) => number }
  | { label: string; of: (seen: Seen) => Series }
  | { labels: readonly string[]; of: (seen: Seen) => readonly { labels: Record<string, string>; value: number }[] }
);

/** Puts the figures into the registry. @returns what brings them all to what is seen now. */
export const addFigures = <Seen>(registry: Registry, figures: readonly Figure<Seen>[]): ((seen: Seen) => void) => {
  const shows = figures.map((figure) => {
    const metric = createMetric(registry, figure);
    return (seen: Seen): void => {
      // A series that is no longer seen must not go on showing its last value.
      metric.reset();
      for (const { labels, value } of seriesOf(figure, seen)) metric.inc(labels, value);
    };
  });
  return (seen) => {
    for (const show of shows) show(seen);
  };
};

const createMetric = <Seen>(registry: Registry, figure: Figure<Seen>): Counter | Gauge => {
  const { type, name, help } = figure;
  const labelNames = "labels" in figure ? [...figure.labels] : "label" in figure ? [figure.label] : [];
  const options = { name, help, labelNames, registers: [registry] };
  return type === "gauge" ? new Gauge(options) : new Counter(options);
};

const seriesOf = <Seen>(
  figure: Figure<Seen>,
  seen: Seen,
): readonly { labels: Record<string, string>; value: number }[] => {
  if ("labels" in figure) return figure.of(seen);
  if (!("label" in figure)) return [{ labels: {}, value: figure.of(seen) }];
  return Object.entries(figure.of(seen)).map(([name, value]) => ({ labels: { [figure.label]: name }, value }));
};
