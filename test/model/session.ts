import { queueSchema } from "@orchestrator/shared/schemas/queue.ts";
import * as v from "valibot";
import type { Act } from "./act.ts";
import { compareFaults, compareMemory, compareTables, mustEqual } from "./compare.ts";
import { checkInvariants, checkStep, checkTally, checkTold } from "./invariants.ts";
import { Model } from "./model.ts";
import { prepare } from "./prepare.ts";
import { type EventRow, readTables, type Tables } from "./read_database.ts";
import { type Step, showStep } from "./step.ts";
import { World } from "./world.ts";

/** Writes that wait at the same moment share one commit; whoever asked first is first in it. */
const MICROTASKS = 20;

/** A world and the model of it, taken through the same steps and compared after each. */
export class Session {
  readonly model: Model;
  readonly world: World;
  /** The steps taken, each with what it was done to. */
  readonly taken: string[] = [];
  /** The same as data. */
  readonly steps: Step[] = [];
  #events: EventRow[] = [];
  #tables: Tables | null = null;
  #comparedEvents = 0;

  private constructor(world: World) {
    this.world = world;
    this.model = new Model(world.clock);
    this.model.epoch = world.scheduler.storage.epoch;
  }

  static async begin(folder: string, template: string): Promise<Session> {
    return new Session(await World.make(folder, template));
  }

  /** Whether a step can be done now. */
  allows(step: Step): boolean {
    return step.do === "together"
      ? this.allows(step.first) && this.allows(step.second)
      : prepare(this.model, step) !== null;
  }

  /**
   * Takes one step and holds all that can be seen against the model and the contract.
   * @returns false where it could not be done; nothing has happened then.
   * @throws what is not as it should be.
   */
  async take(step: Step): Promise<boolean> {
    const taken = step.do === "together" ? await this.#takeTogether(step) : await this.#takeOne(step);
    if (!taken) return false;
    // What an end says about a systemic fault is written after the answer.
    await this.world.scheduler.context.faults.idle();
    await this.check();
    return true;
  }

  async #takeOne(step: Exclude<Step, { do: "together" }>): Promise<boolean> {
    const act = prepare(this.model, step);
    if (act === null) return false;
    this.steps.push(step);
    this.#note(step, act);
    const expected = act.predict();
    mustEqual("the answer", await act.perform(this.world), expected);
    return true;
  }

  async #takeTogether({ first, second }: Extract<Step, { do: "together" }>): Promise<boolean> {
    if (first.do === "together" || second.do === "together") throw new Error("two at a time are enough");
    const one = prepare(this.model, first);
    if (one === null) return false;
    this.steps.push({ do: "together", first, second });
    this.#note(first, one);
    const expected = [one.predict()];
    const answers = [one.perform(this.world)];
    for (let n = 0; n < MICROTASKS; n++) await Promise.resolve();
    const other = prepare(this.model, second);
    if (other !== null) {
      this.#note(second, other, "at the same moment ");
      expected.push(other.predict());
      answers.push(other.perform(this.world));
    }
    mustEqual("the answers", await Promise.all(answers), expected);
    return true;
  }

  /** @throws what is not as it should be. */
  async check(): Promise<void> {
    const { model, world } = this;
    const { storage } = world.scheduler;
    const tables = await readTables(storage, this.#events.length);
    checkStep(this.#tables, tables, this.#events.length);
    this.#events = [...this.#events, ...tables.events];
    this.#tables = tables;
    checkInvariants(tables, this.#events);
    const view = v.parse(queueSchema, await world.scheduler.queueView());
    checkTally(tables, storage.tally, view);
    checkTold(tables, this.#events, world.told);
    compareTables(model, tables, model.events.slice(this.#comparedEvents));
    this.#comparedEvents = model.events.length;
    compareMemory(model, view);
    compareFaults(model, world.scheduler.context.faults.snapshot());
  }

  /** Holds the whole history against what was read of it when it was written, and puts everything away. */
  async end(): Promise<void> {
    const { events } = await readTables(this.world.scheduler.storage, 0);
    mustEqual("the history, read again,", events, this.#events);
  }

  #note(step: Step, { on }: Act, before = ""): void {
    this.taken.push(`${before}${showStep(step)}${on === undefined ? "" : `  // ${on}`}`);
  }
}
