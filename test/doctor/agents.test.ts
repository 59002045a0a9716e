import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isAlive, readProcess } from "@orchestrator/shared/process/proc_table.ts";
import { describe, expect, test } from "vitest";
import { checkAgents } from "../../services/doctor/check_agents.ts";
import { TIMEOUTS_MS } from "../../services/doctor/checks.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { makeContext, shown } from "./context.ts";

describe("agents", () => {
  const agent = (command: readonly [string, ...string[]], env = {}) => ({
    ...{ command, model: null, timeoutMs: 1000, stallTimeoutMs: 1000, env },
  });
  const script = async (text: string): Promise<string> => {
    const path = join(await tempFolder(), "agent");
    await writeFile(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    return path;
  };

  test("found with its version, found without one, missing, not executable, not configured", async () => {
    const versioned = await script('[ "$1" = --version ] && echo "agent 1.2.3"; echo more');
    const silent = await script("exit 2");
    const plain = join(await tempFolder(), "plain");
    await writeFile(plain, "");
    await chmod(plain, 0o644);
    const { context } = await makeContext({
      agents: {
        analyst: agent([versioned, "-p"]),
        architect: agent([silent]),
        developer: agent(["there-is-no-such-program"]),
        reviewer: agent([plain]),
        tester: agent(["sh", "-c", "true"]),
      },
    });
    expect(shown(await checkAgents(context))).toEqual([
      `ok agent analyst ${versioned} (agent 1.2.3)`,
      `ok agent architect ${silent} (it says no version)`,
      expect.stringMatching(/^fail agent developer the command 'there-is-no-such-program' was not found in PATH \(/),
      `fail agent reviewer ${plain} is not an executable file: make it one (chmod +x), or correct the command in the configuration`,
      expect.stringMatching(/^ok agent tester \/.*\/sh \(/),
      `fail agent deployer no program is configured for it -> set agents.deployer or agents.default in ${context.config.configPath}`,
    ]);
  });

  test("the program of several agents is asked once, in an empty place, without their keys", async () => {
    const seen = join(await tempFolder(), "seen");
    const program = await script(`{ env; ls -A; echo "in:$(cat)"; } >>${seen}; echo v1`);
    const { context } = await makeContext({
      agents: { default: agent([program], { API_KEY: "the-key-of-the-agent" }) },
    });
    const lines = shown(await checkAgents(context));
    expect(lines).toHaveLength(6);
    for (const line of lines) expect(line).toContain(`${program} (v1)`);
    const text = await readFile(seen, "utf8");
    expect(text).not.toMatch(/the-key|ORCH_/);
    expect(text.match(/^in:/gm)).toHaveLength(1);
    expect(text).toMatch(/\nin:\n$/);
  });

  test("what it starts and leaves behind is ended, and one that does not end is ended after a while", async () => {
    const pids = join(await tempFolder(), "pids");
    const leaving = await script(`sleep 600 & echo $! >>${pids}; echo v1`);
    const hanging = await script(`trap "" TERM; echo $$ >>${pids}; while :; do sleep 0.1; done`);
    const { context } = await makeContext(
      { agents: { default: agent([leaving]), developer: agent([hanging]) } },
      { timeoutsMs: { ...TIMEOUTS_MS, version: 300 } },
    );
    const lines = shown(await checkAgents(context));
    expect(lines).toContain(`ok agent analyst ${leaving} (v1)`);
    expect(lines).toContain(
      `warn agent developer ${hanging} did not answer --version within 0.3 s -> does it wait for something? Try it by hand`,
    );
    const left = (await readFile(pids, "utf8")).trim().split("\n").map(Number);
    expect(left).toHaveLength(2);
    for (const pid of left) expect([pid, isAlive(pid, readProcess(pid)?.started ?? 0)]).toEqual([pid, false]);
  });
});
