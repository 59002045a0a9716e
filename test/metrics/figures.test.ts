import { closeSync, openSync } from "node:fs";
import { addFigures } from "@orchestrator/shared/metrics/figures.ts";
import { processFigures } from "@orchestrator/shared/metrics/process_figures.ts";
import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { seriesOf } from "./prometheus.ts";

test("a figure shows what is seen now, and forgets what is not seen any more", async () => {
  const registry = new Registry();
  const show = addFigures<{ n: number; by: Record<string, number> }>(registry, [
    { type: "counter", name: "n_total", help: "n", of: ({ n }) => n },
    { type: "gauge", name: "by", help: "by", label: "what", of: ({ by }) => by },
    {
      ...{ type: "gauge", name: "pairs", help: "pairs", labels: ["a", "b"] },
      of: ({ n }) => [
        { labels: { a: "x", b: "y" }, value: n },
        // The same series once more is added to.
        { labels: { a: "x", b: "y" }, value: 1 },
      ],
    },
  ]);
  show({ n: 7, by: { one: 1, two: 2 } });
  show({ n: 8, by: { two: 3 } });
  expect(seriesOf(await registry.metrics())).toEqual({ n_total: 8, 'by{what="two"}': 3, 'pairs{a="x",b="y"}': 9 });
});

test("two registries know nothing of one another", async () => {
  const [one, other] = [new Registry(), new Registry()];
  const figures = [{ type: "gauge", name: "g", help: "g", of: (seen: number) => seen }] as const;
  addFigures(one, figures)(1);
  addFigures(other, figures)(2);
  expect(seriesOf(await one.metrics())).toEqual({ g: 1 });
  expect(seriesOf(await other.metrics())).toEqual({ g: 2 });
});

test("the process's figures are those of this process, in the units that their names say", async () => {
  const registry = new Registry();
  const show = addFigures(registry, processFigures());
  const read = async (): Promise<Record<string, number>> => {
    show(undefined);
    return seriesOf(await registry.metrics());
  };
  const before = await read();
  const files = Array.from({ length: 50 }, () => openSync("/dev/null", "r"));
  const until = performance.now() + 50;
  while (performance.now() < until);
  const after = await read();
  for (const file of files) closeSync(file);
  // The runtime opens and closes some of its own.
  const opened = after["process_open_fds"]! - before["process_open_fds"]!;
  expect(opened).toBeGreaterThan(40);
  expect(opened).toBeLessThan(60);
  expect(after["process_cpu_seconds_total"]).toBeGreaterThan(before["process_cpu_seconds_total"]!);
  expect(after["process_cpu_seconds_total"]).toBeLessThan(3600);
  const ageSeconds = Date.now() / 1000 - after["process_start_time_seconds"]!;
  expect(ageSeconds).toBeGreaterThan(0);
  expect(ageSeconds).toBeLessThan(3600);
  expect(after["process_resident_memory_bytes"]).toBeGreaterThan(10_000_000);
  expect(after["nodejs_heap_size_used_bytes"]).toBeGreaterThan(1_000_000);
  expect(after["nodejs_heap_size_total_bytes"]).toBeGreaterThanOrEqual(after["nodejs_heap_size_used_bytes"]!);
});
