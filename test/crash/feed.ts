import type { Violation } from "./invariants.ts";
import { type CrashSite, REPOS } from "./site.ts";

interface TaskAnswer {
  id: number;
  work_item_id: string;
  stage: string;
  blocked_reason: string | null;
}

interface RunAnswer {
  stage: string;
  outcome: string | null;
  exit_code: number | null;
}

/** Where a scheduler is left to run into an unwanted repetition, a person has to say so; in the harness that is this. */
const EXPECTED_BLOCKS = { inARow: /^interrupted 5 times in a row/, notTwice: /is not run twice \(rerun: false\)/ };
const IN_A_ROW = 5;

const ANSWER_MS = 20_000;

const STAGES = [undefined, "testing", undefined, undefined, undefined, "deploy-staging", undefined, undefined] as const;

/** The people around the services: they post work items, retry what needs a person, and end pauses. */
export class Feed {
  /** The work items that the API answered 201 for. */
  readonly accepted: string[] = [];
  readonly violations: Violation[] = [];
  /** How often a person was needed, by why. */
  readonly helped: Record<string, number> = {};
  readonly #site: CrashSite;
  readonly #openItems: number;
  #next = 1;
  #unsure: string | null = null;
  #feeding = true;

  /** @param openItems how many unfinished work items there are to be at a time. */
  constructor(site: CrashSite, openItems: number) {
    this.#site = site;
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
      if (error instanceof DOMException && error.name === "TimeoutError") {
        this.violations.push(`the scheduler gave no answer for ${ANSWER_MS} ms`);
        return;
      }
      // Not there, or killed while it answered: each runtime has its own words for it.
      if (!(error instanceof TypeError || error instanceof SyntaxError)) throw error;
    }
  }

  async #post(): Promise<void> {
    if (this.#unsure !== null) {
      const { status } = await this.#call("GET", `/tasks/${this.#unsure}`);
      if (status === 200) this.#unsure = null;
    }
    if (!this.#feeding) return;
    const { body } = await this.#call("GET", "/queue");
    const {
      active = 0,
      waiting = 0,
      blocked = 0,
    } = (body as { tasks: { by_status: Record<string, number> } }).tasks.by_status;
    for (let open = active + waiting + blocked; open < this.#openItems; open += 1) await this.#postOne();
  }

  async #postOne(): Promise<void> {
    const n = this.#unsure === null ? this.#next++ : Number(this.#unsure.slice("CRASH-".length));
    const repos = Object.keys(REPOS);
    const item = { work_item_id: `CRASH-${n}`, title: `Item ${n}`, repo: repos[n % repos.length] };
    this.#unsure = item.work_item_id;
    const stage = STAGES[n % STAGES.length];
    const { status, body } = await this.#call("POST", "/tasks", { ...item, ...(stage && { stage }) });
    this.#unsure = null;
    if (status === 201) this.accepted.push(item.work_item_id);
    else this.violations.push(`${item.work_item_id} was answered with ${status}: ${JSON.stringify(body)}`);
  }

  async #help(): Promise<void> {
    const { body } = await this.#call("GET", "/tasks?status=blocked&limit=100");
    for (const task of (body as { tasks: TaskAnswer[] }).tasks) {
      const detail = await this.#call("GET", `/tasks/${task.id}`);
      const why = whyBlocked(task, (detail.body as { runs: RunAnswer[] }).runs);
      if (why === null) {
        const text = `${task.work_item_id} is blocked in ${task.stage}: ${task.blocked_reason}`;
        if (!this.violations.includes(text)) this.violations.push(text);
        continue;
      }
      const { status } = await this.#call("POST", `/tasks/${task.id}/retry`, {});
      if (status === 200) this.#helped(why);
    }
    const { paused } = (await this.#call("GET", "/queue")).body as { paused: { what: string }[] };
    for (const { what } of paused) {
      const [kind = "", name] = what.split(":");
      await this.#call("POST", "/queue/resume", kind === "all" ? {} : { [kind]: name ?? true });
      this.#helped(`${what} was paused`);
    }
  }

  #helped(why: string): void {
    this.helped[why] = (this.helped[why] ?? 0) + 1;
  }

  async #call(method: string, path: string, body?: object): Promise<{ status: number; body: unknown }> {
    const response = await fetch(`${this.#site.schedulerUrl}${path}`, {
      method,
      signal: AbortSignal.timeout(ANSWER_MS),
      ...(body && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
    });
    return { status: response.status, body: await response.json() };
  }
}

/** Null where a task is blocked although nothing happened that the contract has it blocked for. */
const whyBlocked = ({ stage, blocked_reason: reason }: TaskAnswer, runs: readonly RunAnswer[]): string | null => {
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
