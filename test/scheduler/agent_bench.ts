import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "@orchestrator/shared/clock.ts";
import { afterEach, beforeEach, expect } from "vitest";
import { type AgentOptions, type AgentProcess, startAgent } from "../../services/scheduler/agent_process.ts";
import { makeExitNote } from "../../services/scheduler/exit_notes.ts";
import { openRunLog, type RunLog } from "../../services/scheduler/run_log.ts";
import { tempFolder } from "../shared/process/real.ts";

/** What a test of agents works with; made anew before each test, and everything that it started is ended after it. */
export class AgentBench {
  /** The workspace. */
  cwd = "";
  logPath = "";
  log!: RunLog;
  /** Made, and written by nobody yet. */
  exitNote = "";
  tempFolder = "";
  /** What went wrong about the endings of the test's agents. */
  troubles: { error: unknown; what: string }[] = [];
  /** Carried by all that the test's agents start. */
  marks = { instanceId: "", runId: 7 };
  #agents: AgentProcess[] = [];

  constructor() {
    beforeEach(() => this.#open());
    afterEach(() => this.#close());
  }

  env(): Record<string, string> {
    return {
      PATH: "/usr/local/bin:/usr/bin:/bin",
      ORCH_INSTANCE_ID: this.marks.instanceId,
      ORCH_RUN_ID: String(this.marks.runId),
    };
  }

  async start(argv: string[], options: Partial<AgentOptions> = {}): Promise<AgentProcess> {
    const { cwd, log, exitNote, tempFolder } = this;
    const prompt = "the prompt\n";
    const agent = await startAgent({
      argv,
      prompt,
      cwd,
      env: this.env(),
      exitNote,
      tempFolder,
      log,
      clock: systemClock,
      onTrouble: (error, what) => this.troubles.push({ error, what }),
      ...options,
    });
    this.#agents.push(agent);
    return agent;
  }

  /** Runs `sh -c script` as an agent to its end, and gives what it wrote. */
  async outputOf(script: string, options: Partial<AgentOptions> = {}): Promise<string> {
    const agent = await this.start(["sh", "-c", script], options);
    await agent.exited;
    await agent.end(5000);
    await this.log.close();
    return readFileSync(this.logPath, "utf8");
  }

  async #open(): Promise<void> {
    const folder = tempFolder();
    this.cwd = join(folder, "workspace");
    mkdirSync(this.cwd);
    this.logPath = join(folder, "7.log");
    this.exitNote = join(folder, "7.exit");
    await makeExitNote(this.exitNote);
    this.troubles = [];
    this.marks = { instanceId: randomUUID(), runId: 7 };
    this.log = await openRunLog({ path: this.logPath, maxBytes: 8 * 1024 * 1024 });
    this.#agents = [];
    this.tempFolder = join(folder, "tmp");
    mkdirSync(this.tempFolder);
  }

  async #close(): Promise<void> {
    for (const agent of this.#agents) await agent.end(0);
    await this.log.close();
    expect(readdirSync(this.tempFolder)).toEqual([]);
  }
}
