import { queueSchema } from "@orchestrator/shared/schemas/queue.ts";
import { runSchema, taskSchema } from "@orchestrator/shared/schemas/rows.ts";
import * as v from "valibot";
import { Asker, NotThereError, WrongAnswerError, wrong } from "./ask.ts";
import type { Violation } from "./invariants.ts";
import { type CrashSite, REPOS } from "./site.ts";

const taskListSchema = v.object({ tasks: v.array(taskSchema) });
const taskRunsSchema = v.object({ runs: v.array(runSchema) });

/** Where a scheduler is left to run into an unwanted repetition, a person has to say so; in the harness that is this. */
const EXPECTED_BLOCKS = { inARow: /^interrupted 5 times in a row/, notTwice: /is not run twice \(rerun: false\)/ };
const IN_A_ROW = 5;

const STAGES = [undefined, "testing", undefined, undefined, undefined, "deploy-staging", undefined, undefined] as const;

/** The people around the services: they post work items, retry what needs a person, and end pauses. */
export class Feed {
  /** The work items that the API answered 201 for. */
  readonly accepted: string[] = [];
  readonly violations: Violation[] = [];
  /** How often a person was needed, by why. */
  readonly helped: Record<string, number> = {};
  readonly #asker: Asker;
  readonly #openItems: number;
  #next = 1;
  #unsure: string | null = null;
  #feeding = true;

  /**
   * @param openItems how many unfinished work items there are to be at a time.
   * @param answerMs how long the scheduler may take to answer, in ms.
   */
  constructor(site: Pick<CrashSite, "schedulerUrl">, openItems: number, answerMs: number) {
    this.#asker = new Asker(site.schedulerUrl, answerMs);
    this.#openItems = openItems;
  }

  /** No more work items. */
  stop(): void {
    this.#feeding = false;
  }

  /** One look at the scheduler, doing what is to be done. A scheduler that is gone, or goes meanwhile, is looked at the next time. */
  async tend(): Promise<void> {
    try {
      await this.#post();
      await this.#help();
    } catch (error) {
      if (error instanceof WrongAnswerError) this.violations.push(error.message);
      else if (!(error instanceof NotThereError)) throw error;
    }
  }

  async #post(): Promise<void> {
    if (this.#unsure !== null) {
      const path = `/tasks/${this.#unsure}`;
      const answer = await this.#asker.ask("GET", path);
      if (answer.status === 200) this.#unsure = null;
      else if (answer.status !== 404) throw wrong(`GET ${path}`, answer);
    }
    if (!this.#feeding) return;
    const { tasks } = await this.#asker.take(queueSchema, "GET", "/queue");
    const { active, waiting, blocked } = tasks.by_status;
    for (let open = active + waiting + blocked; open < this.#openItems; open += 1) await this.#postOne();
  }

  async #postOne(): Promise<void> {
    const n = this.#unsure === null ? this.#next++ : Number(this.#unsure.slice("CRASH-".length));
    const repos = Object.keys(REPOS);
    const item = { work_item_id: `CRASH-${n}`, title: `Item ${n}`, repo: repos[n % repos.length] };
    this.#unsure = item.work_item_id;
    const stage = STAGES[n % STAGES.length];
    const answer = await this.#asker.ask("POST", "/tasks", { ...item, ...(stage && { stage }) });
    this.#unsure = null;
    if (answer.status !== 201) throw wrong(`POST /tasks with ${item.work_item_id}`, answer);
    this.accepted.push(item.work_item_id);
  }

  async #help(): Promise<void> {
    const { tasks } = await this.#asker.take(taskListSchema, "GET", "/tasks?status=blocked&limit=100");
    for (const task of tasks) {
      const { runs } = await this.#asker.take(taskRunsSchema, "GET", `/tasks/${task.id}`);
      const why = whyBlocked(task, runs);
      if (why === null) {
        const text = `${task.work_item_id} is blocked in ${task.stage}: ${task.blocked_reason}`;
        if (!this.violations.includes(text)) this.violations.push(text);
        continue;
      }
      await this.#asker.take(v.unknown(), "POST", `/tasks/${task.id}/retry`, {});
      this.#helped(why);
    }
    const { paused } = await this.#asker.take(queueSchema, "GET", "/queue");
    for (const { what } of paused) {
      const [kind = "", name] = what.split(":");
      await this.#asker.take(v.unknown(), "POST", "/queue/resume", kind === "all" ? {} : { [kind]: name ?? true });
      this.#helped(`${what} was paused`);
    }
  }

  #helped(why: string): void {
    this.helped[why] = (this.helped[why] ?? 0) + 1;
  }
}

/** Null where a task is blocked although nothing happened that the contract has it blocked for. */
const whyBlocked = (
  { stage, blocked_reason: reason }: v.InferOutput<typeof taskSchema>,
  runs: readonly v.InferOutput<typeof runSchema>[],
): string | null => {
  if (reason === null) return null;
  if (EXPECTED_BLOCKS.inARow.test(reason)) {
    const last = runs.slice(-IN_A_ROW);
    return last.every((run) => run.stage === stage && run.outcome === "interrupted") ? "interrupted five times" : null;
  }
  if (EXPECTED_BLOCKS.notTwice.test(reason)) {
    const last = runs.at(-1);
    return last?.outcome === "interrupted" && last.exit_code !== 0 ? "deploy was cut short" : null;
  }
  return null;
};
