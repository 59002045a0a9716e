import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { signalProcess } from "@orchestrator/shared/process/end_processes.ts";
import { findMarked } from "@orchestrator/shared/process/find_processes.ts";
import { describe, expect, test } from "vitest";
import { clearExitNote, hasExitNote } from "../../services/scheduler/exit_notes.ts";
import { until } from "../shared/process/real.ts";
import { AgentBench } from "./agent_bench.ts";

const bench = new AgentBench();

describe("an exit is noted", () => {
  test.each([
    ["exit 0", true],
    ["sleep 60 & exit 0", true],
    ["exit 1", false],
    ["exit 137", false],
    ["kill -9 $$", false],
    ["kill -TERM $$", false],
  ])("after '%s': %s", async (script, expected) => {
    const agent = await bench.start(["sh", "-c", script]);
    await agent.exited;
    expect(await hasExitNote(bench.exitNote)).toBe(expected);
  });

  test("by the time it can be seen, and before whoever started the agent had to do anything", async () => {
    const agent = await bench.start(["true"]);
    let noted: boolean | null = null;
    agent.onExit(() => {
      noted = existsSync(bench.exitNote);
    });
    await agent.exited;
    expect(noted).toBe(true);
  });

  test("not where the agent exits 0 because it is told to end", async () => {
    const agent = await bench.start(["sh", "-c", 'trap "exit 0" TERM; echo ready; while :; do sleep 0.01; done']);
    await until(() => readFileSync(bench.logPath, "utf8").includes("ready"));
    await agent.end(5000);
    expect(await agent.exited).toEqual({ code: 0, signal: null });
    expect(await hasExitNote(bench.exitNote)).toBe(false);
  });

  test("also where the agent is told to end after it", async () => {
    const agent = await bench.start(["true"]);
    await agent.exited;
    await agent.end(0);
    expect(await hasExitNote(bench.exitNote)).toBe(true);
  });

  test("at once, while the work is still on its way to the disk; the exit is seen when that is there", async () => {
    const bin = join(bench.cwd, "..", "bin");
    const at = (name: string) => join(bin, name);
    mkdirSync(bin);
    writeFileSync(
      at("sync"),
      `#!/bin/sh\necho "$PWD $*" >${at("asked")}\nwhile [ ! -e ${at("go")} ]; do sleep 0.01; done\necho >${at("done")}\n`,
      { mode: 0o755 },
    );
    const env = { ...bench.env(), PATH: `${bin}:${bench.env().PATH}` };
    const agent = await bench.start(["true"], { env });
    let isSynced: boolean | null = null;
    agent.onExit(() => {
      isSynced = existsSync(at("done"));
    });
    await until(() => existsSync(at("asked")) && readFileSync(at("asked"), "utf8") !== "");
    expect(readFileSync(at("asked"), "utf8")).toBe(`${bench.cwd} -f .\n`);
    expect(await hasExitNote(bench.exitNote)).toBe(true);
    writeFileSync(at("go"), "");
    expect(await agent.exited).toEqual({ code: 0, signal: null });
    expect(isSynced).toBe(true);
  });

  test("nowhere is harmless: the exit is the agent's all the same", async () => {
    const agent = await bench.start(["true"], { exitNote: `${bench.cwd}/missing/note` });
    expect(await agent.exited).toEqual({ code: 0, signal: null });
  });

  test.each([["a file"], ["a directory"]])(
    "only of this run: what stands in the place (%s) is taken away",
    async (what) => {
      if (what === "a file") writeFileSync(bench.exitNote, "0\n");
      else mkdirSync(bench.exitNote);
      await clearExitNote(bench.exitNote);
      expect(await hasExitNote(bench.exitNote)).toBe(false);
      await (await bench.start(["true"])).exited;
      expect(await hasExitNote(bench.exitNote)).toBe(true);
    },
  );
});

describe("the keeper", () => {
  test.each(["HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM"])(
    "outlives SIG%s that the agent sends to its own group",
    async (name) => {
      const agent = await bench.start(["sh", "-c", `trap "exit 4" ${name}; kill -${name} 0; sleep 5`]);
      expect(await agent.exited).toEqual({ code: 4, signal: null });
    },
  );

  test("that has not started its agent yet when this is told to end does not keep it from being told", async () => {
    for (let n = 0; n < 20; n += 1) {
      // The same program as its keeper's: nothing but the moment tells the two apart.
      const agent = await bench.start(["sh", "-c", "while :; do sleep 0.05; done"]);
      expect((await agent.end(30_000)).survivors).toEqual([]);
      expect(await agent.exited).toEqual({ code: null, signal: "SIGTERM" });
    }
  });

  test("starts nothing for a run that was ended meanwhile", async () => {
    const reason = new Error("ended");
    const starting = bench.start(["touch", "started"], { signal: AbortSignal.abort(reason) });
    await expect(starting).rejects.toBe(reason);
    expect(findMarked(bench.marks)).toEqual([]);
    expect(existsSync(`${bench.cwd}/started`)).toBe(false);
  });

  test("leaves the agent the signals as they were", async () => {
    const agent = await bench.start(["sh", "-c", "grep -E 'Sig(Ign|Cgt)' /proc/self/status; kill -INT $$; sleep 5"]);
    expect(await agent.exited).toEqual({ code: null, signal: "SIGINT" });
    await agent.end(0);
    await bench.log.close();
    const [ignored, caught] = [...readFileSync(bench.logPath, "utf8").matchAll(/\t([0-9a-f]+)/g)].map(([, mask]) =>
      BigInt(`0x${mask}`),
    );
    // HUP, INT, QUIT, USR1, USR2, ALRM, TERM
    const trapped = [1, 2, 3, 10, 12, 14, 15].reduce((mask, signal) => mask | (1n << BigInt(signal - 1)), 0n);
    expect([ignored! & trapped, caught! & trapped]).toEqual([0n, 0n]);
  });

  test("adds nothing to the agent's output, and takes nothing of its input", async () => {
    expect(await bench.outputOf("cat; echo out; echo err >&2; kill -9 $$", { prompt: "in\n" })).toBe("in\nout\nerr\n");
  });

  test("leaves no file open for the agent", async () => {
    const output = await bench.outputOf("ls /proc/self/fd");
    // The fourth is the directory that is being listed.
    expect(
      output
        .trim()
        .split("\n")
        .filter((fd) => Number(fd) < 10),
    ).toEqual(["0", "1", "2", "3"]);
  });

  test("that somebody kills is an end by that signal, and nothing is left", async () => {
    const agent = await bench.start(["sh", "-c", "echo ready; sleep 60"]);
    await until(() => readFileSync(bench.logPath, "utf8").includes("ready"));
    signalProcess(agent, "SIGKILL");
    expect(await agent.exited).toEqual({ code: null, signal: "SIGKILL" });
    await agent.end(0);
    expect(findMarked(bench.marks)).toEqual([]);
    expect(await hasExitNote(bench.exitNote)).toBe(false);
  });
});
