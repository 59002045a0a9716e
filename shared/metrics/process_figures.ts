import { existsSync, readdirSync } from "node:fs";
import type { Figure } from "./figures.ts";

const OPEN_FILES = "/proc/self/fd";

/**
 * What this process uses. prom-client's own collection is not taken: some of its names are not as Prometheus wants them, and
 * it keeps timers.
 */
export const processFigures = (): Figure<unknown>[] => {
  const figures: Figure<unknown>[] = [
    {
      type: "counter",
      name: "process_cpu_seconds_total",
      help: "Processor time used, in user and system mode.",
      of: () => {
        const { user, system } = process.cpuUsage();
        return (user + system) / 1e6;
      },
    },
    {
      type: "gauge",
      name: "process_start_time_seconds",
      help: "When the process started, since the epoch.",
      of: () => Math.round(performance.timeOrigin) / 1000,
    },
    {
      type: "gauge",
      name: "process_resident_memory_bytes",
      help: "Memory that the process holds.",
      of: () => process.memoryUsage().rss,
    },
    {
      type: "gauge",
      name: "nodejs_heap_size_total_bytes",
      help: "Size of the JavaScript heap.",
      of: () => process.memoryUsage().heapTotal,
    },
    {
      type: "gauge",
      name: "nodejs_heap_size_used_bytes",
      help: "The part of the JavaScript heap that is in use.",
      of: () => process.memoryUsage().heapUsed,
    },
  ];
  if (existsSync(OPEN_FILES)) {
    figures.push({
      type: "gauge",
      name: "process_open_fds",
      help: "Open file descriptors.",
      // One of them is the look itself.
      of: () => readdirSync(OPEN_FILES).length - 1,
    });
  }
  return figures;
};
