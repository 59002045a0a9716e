import { appendFileSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { signalProcess } from "@orchestrator/shared/process/end_processes.ts";
import { findMarked } from "@orchestrator/shared/process/find_processes.ts";
import { describe, expect, test } from "vitest";
import { hasExitNote, makeExitNote, refuseExitNote, saysExited } from "../../services/scheduler/exit_notes.ts";
import { mountSmallDisk } from "../helpers/small_disk.ts";
import { tempFolder } from "../helpers/temp_folder.ts";
import { until } from "../shared/process/real.ts";
import { AgentBench } from "./agent_bench.ts";

const bench = new AgentBench();

/** The script of an agent that exits 0 when it is told to end, having done `last`. */
const politely = (last: string): string => `trap '${last}; exit 0' TERM; echo ready; while :; do sleep 0.01; done`;
const POLITE = politely(":");

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
      noted = saysExited(readFileSync(bench.exitNote, "utf8"));
    });
    await agent.exited;
    expect(noted).toBe(true);
  });

  test("not where the agent exits 0 because it is told to end", async () => {
    const agent = await bench.start(["sh", "-c", POLITE]);
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

  test.each<[string, (path: string) => void]>([
    ["another run's note", (path) => writeFileSync(path, "\n0\n")],
    ["a directory", (path) => mkdirSync(join(path, "deep"), { recursive: true })],
    ["a link", (path) => symlinkSync(bench.logPath, path)],
  ])("only of this run: what stands in the place (%s) is taken away", async (_, stands) => {
    const exitNote = `${bench.exitNote}s/8`;
    mkdirSync(`${bench.exitNote}s`);
    stands(exitNote);
    await makeExitNote(exitNote);
    expect(await hasExitNote(exitNote)).toBe(false);
    await (await bench.start(["true"], { exitNote })).exited;
    expect(await hasExitNote(exitNote)).toBe(true);
    expect(readFileSync(bench.logPath, "utf8")).toBe("");
  });
});

describe("of an exit 0 and the refusal of it, what was written first counts", () => {
  test.each([
    ["\n", false],
    ["\n0\n", true],
    ["\n0\ntold\n", true],
    ["\ntold\n", false],
    ["\ntold\n0\n", false],
    // Cut short by a disk that failed.
    ["\nto0\n", false],
    // Made anew by a keeper, since the scheduler's was taken away.
    ["0\n", false],
    ["", false],
  ])("%j: %s", (note, expected) => {
    expect(saysExited(note)).toBe(expected);
  });

  test("whoever is killed after it", async () => {
    appendFileSync(bench.exitNote, "0\n");
    refuseExitNote(bench.exitNote);
    expect(await hasExitNote(bench.exitNote)).toBe(true);
    await makeExitNote(bench.exitNote);
    refuseExitNote(bench.exitNote);
    appendFileSync(bench.exitNote, "0\n");
    expect(await hasExitNote(bench.exitNote)).toBe(false);
  });

  describe("on a full disk as well", () => {
    const onFullDisk = async (script: string) => {
      const folder = join(await tempFolder(), "notes");
      const disk = await mountSmallDisk(folder);
      const exitNote = join(folder, "7");
      await makeExitNote(exitNote);
      const agent = await bench.start(["sh", "-c", script], { exitNote });
      await until(() => readFileSync(bench.logPath, "utf8").includes("ready"));
      await disk.refuseFiles();
      await disk.fill();
      return { agent, exitNote };
    };

    test("the exit", async () => {
      const { agent, exitNote } = await onFullDisk("echo ready; while [ ! -e go ]; do sleep 0.01; done");
      writeFileSync(join(bench.cwd, "go"), "");
      expect(await agent.exited).toEqual({ code: 0, signal: null });
      expect(await hasExitNote(exitNote)).toBe(true);
    });

    test("the refusal", async () => {
      const { agent, exitNote } = await onFullDisk(POLITE);
      expect((await agent.end(5000)).survivors).toEqual([]);
      expect(await agent.exited).toEqual({ code: 0, signal: null });
      expect(await agent.isNoted()).toBe(false);
      expect(readFileSync(exitNote, "utf8")).toBe("\ntold\n0\n");
      expect(bench.troubles).toEqual([]);
    });
  });
});

describe("an agent that puts something else in the place of its note is ended all the same, and its exit 0 does not count", () => {
  test.each([
    ["a directory", 'rm "$NOTE"; mkdir "$NOTE"', /EISDIR/],
    ["a link", 'rm "$NOTE"; ln -s "$NOTE.else" "$NOTE"', /ELOOP/],
    ["a pipe that nobody reads", 'rm "$NOTE"; mkfifo "$NOTE"', /ENXIO/],
    ["nothing", 'rm "$NOTE"', null],
  ])("%s", async (_, script, error) => {
    const env = { ...bench.env(), NOTE: bench.exitNote };
    const agent = await bench.start(["sh", "-c", `${script}; ${POLITE}`], { env });
    await until(() => readFileSync(bench.logPath, "utf8").includes("ready"));
    expect((await agent.end(5000)).survivors).toEqual([]);
    expect(await agent.exited).toEqual({ code: 0, signal: null });
    expect(await agent.isNoted()).toBe(false);
    expect(await hasExitNote(bench.exitNote)).toBe(false);
    expect(existsSync(`${bench.exitNote}.else`)).toBe(false);
    expect(bench.troubles.map(({ error }) => String(error))).toEqual(error ? [expect.stringMatching(error)] : []);
  });

  test("not even where it then makes one that says so", async () => {
    const lie = `rmdir "$NOTE"; echo >"$NOTE"`;
    const env = { ...bench.env(), NOTE: bench.exitNote };
    const agent = await bench.start(["sh", "-c", `rm "$NOTE"; mkdir "$NOTE"; ${politely(lie)}`], { env });
    await until(() => readFileSync(bench.logPath, "utf8").includes("ready"));
    await agent.end(5000);
    expect(await hasExitNote(bench.exitNote)).toBe(true);
    expect(await agent.isNoted()).toBe(false);
  });
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
