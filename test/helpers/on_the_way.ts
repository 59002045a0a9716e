import type { Config } from "@orchestrator/shared/config/config.ts";
import type { Points } from "@orchestrator/shared/points.ts";
import { expect } from "vitest";
import type { Scheduler } from "../../services/scheduler/scheduler.ts";
import type { Site } from "./scheduler.ts";

/** A pipeline of these stages alone, in the order of the default one. */
export const onlyStages = (site: Site, ...names: string[]): Pick<Config, "pipeline"> => {
  const { pipeline } = site.config;
  return { pipeline: { ...pipeline, stages: pipeline.stages.filter(({ name }) => names.includes(name)) } };
};

/** Makes what waits for its time due now, as the time would. */
export const makeDue = (scheduler: Scheduler): Promise<void> =>
  scheduler.context.storage.write(async (tx) => {
    await tx.run("UPDATE jobs SET available_at = ? WHERE status = 'queued'", [tx.now]);
    tx.jobMoved("queued", "queued");
  });

/**
 * Points at which work breaks off, once each, in a way that nobody foresaw: a tool error, or, where it is the settle that
 * breaks off, a job that is left to the reaper.
 */
export class BreakingPoints implements Points {
  readonly broken: string[] = [];
  readonly #names: string[];
  readonly #isMeant: (key: number | string | undefined) => boolean;

  /** @param names in the order in which they are to break. */
  constructor(names: string[], isMeant: (key: number | string | undefined) => boolean = () => true) {
    this.#names = [...names];
    this.#isMeant = isMeant;
  }

  async reach(name: string, key?: number | string): Promise<void> {
    if (name !== this.#names[0] || !this.#isMeant(key)) return;
    this.#names.shift();
    this.broken.push(name);
    throw new Error(`broken off at ${name}`);
  }
}

/** Waits until nobody works on anything any more, and has the reaper take back what is left. The grace must be 0. */
export const reap = async ({ reaper, context }: Scheduler): Promise<void> => {
  await context.activeRuns.whenIdle();
  await reaper.sweep();
  await reaper.sweep();
  expect(await context.storage.query("SELECT id FROM jobs WHERE status = 'running'")).toEqual([]);
};
