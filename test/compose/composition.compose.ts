import { availableParallelism, loadavg } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compose, containersOf, docker, inside, inspect, PROJECT, SCHEDULER } from "./engine.ts";
import * as site from "./site.ts";
import {
  API,
  act,
  done,
  healthy,
  isReady,
  post,
  readTask,
  readToken,
  stager,
  stagers,
  until,
  working,
} from "./site.ts";

const READ_ONLY = /read-only file system|readonly database/i;
const MIB = 2 ** 20;

/** How many times longer all takes where more wants to run than there are processors; 1 on a machine that has time. */
const busyness = (): number => Math.max(1, (loadavg()[0] ?? 1) / availableParallelism());

beforeAll(async () => {
  await compose(["up", "--detach", "--no-build"]);
});
afterAll(async () => {
  await compose(["down", "--volumes", "--remove-orphans"]);
});

describe("the first start, without a configuration", () => {
  test("ends with two healthy services", async () => {
    await healthy(SCHEDULER);
    await healthy(await stager());
    expect(await isReady()).toBe(true);
  });

  test("says in the log and on its first page what to write where", async () => {
    const { stdout } = await docker(["logs", SCHEDULER]);
    expect(stdout).toMatch(
      /"nothing to work on yet: write repos and agents into \/data\/orchestrator\.yaml .*restart"/,
    );
    const page = await fetch(API);
    expect(page.status).toBe(200);
    expect(page.headers.get("content-type")).toMatch(/^text\/html/);
    expect(await page.text()).toContain("/data/orchestrator.yaml");
    expect((await inside(SCHEDULER, "cat services/orchestrator.sample.yaml")).stdout).toContain("base_branch: main");
  });

  test("makes tokens that only the services' user can read, and that nothing shows", async () => {
    const modes = "stat -c '%a %u %n' /data/secrets/*";
    expect((await inside(SCHEDULER, modes)).stdout).toBe(
      "600 1000 /data/secrets/api.token\n600 1000 /data/secrets/stager.token\n",
    );
    const tokens = (await inside(SCHEDULER, "cat /data/secrets/*")).stdout.trim().split("\n");
    expect(new Set(tokens).size).toBe(2);
    const shown = [
      (await compose(["logs"])).output,
      (await docker(["inspect", SCHEDULER, await stager()])).stdout,
      (await inside(SCHEDULER, "cat /proc/[0-9]*/environ | tr '\\0' '\\n'")).stdout,
    ];
    for (const token of tokens) for (const text of shown) expect(text).not.toContain(token);
    expect((await fetch(`${API}/tasks`)).status).toBe(401);
    expect((await fetch(`${API}/tasks`, { headers: { authorization: `Bearer ${await readToken()}` } })).status).toBe(
      200,
    );
  });
});

describe("the containers", () => {
  const mountsOf = async (container: string) =>
    Object.fromEntries((await inspect(container)).Mounts.map(({ Destination, RW }) => [Destination, RW ? "rw" : "ro"]));

  test("mount for writing only what is theirs", async () => {
    expect(await mountsOf(SCHEDULER)).toEqual({
      "/data": "rw",
      "/repos": "rw",
      "/workspaces": "rw",
      "/home/node": "rw",
      "/demo": "rw",
    });
    expect(await mountsOf(await stager())).toEqual({
      "/data": "ro",
      "/repos": "ro",
      "/scratch": "rw",
      "/scratch/cache": "rw",
    });
  });

  test("are confined, bounded, and published on this machine alone", async () => {
    for (const name of [SCHEDULER, await stager()]) {
      const { Config, HostConfig, NetworkSettings } = await inspect(name);
      expect(Config.User).toBe("1000:1000");
      expect(HostConfig).toMatchObject({
        ReadonlyRootfs: true,
        CapDrop: ["ALL"],
        SecurityOpt: ["no-new-privileges:true"],
        RestartPolicy: { Name: "unless-stopped" },
        LogConfig: { Type: "json-file", Config: { "max-size": "10m", "max-file": "5" } },
      });
      expect(HostConfig.PidsLimit).toBeGreaterThan(0);
      expect(HostConfig.Memory).toBeGreaterThanOrEqual(1024 * MIB);
      expect(Object.keys(HostConfig.Tmpfs ?? {})).toEqual(["/tmp"]);
      const published = Object.values(NetworkSettings.Ports).flatMap((bindings) => bindings ?? []);
      expect(published.map(({ HostIp }) => HostIp)).toEqual(name === SCHEDULER ? ["127.0.0.1"] : []);
    }
    // The drain and the grace between the two signals, as they are without the tests' shorter ones.
    expect((await inspect(SCHEDULER)).Config.StopTimeout).toBeGreaterThan(20);
  });

  test("run as a user without rights, on a system that cannot be changed", async () => {
    for (const name of [SCHEDULER, await stager()]) {
      const seen = await inside(name, "id -u; grep -E '^(CapEff|NoNewPrivs)' /proc/1/status | tr '\\t' ' '");
      expect(seen.stdout).toBe("1000\nCapEff: 0000000000000000\nNoNewPrivs: 1\n");
      for (const path of ["/x", "/app/x", "/usr/local/bin/x"]) {
        expect((await inside(name, `touch ${path}`, { anyCode: true })).output).toMatch(READ_ONLY);
      }
      // What agents, steps and prompts need of it.
      await inside(name, "mkfifo /tmp/pipe && printf '#!/bin/sh\\nexit 0' > /tmp/run && chmod +x /tmp/run && /tmp/run");
      await inside(name, "rm /tmp/pipe /tmp/run");
    }
    await inside(SCHEDULER, "touch ~/kept && rm ~/kept");
  });

  test("hold no packages but the database's library, and what reaps the dead", async () => {
    for (const name of [SCHEDULER, await stager()]) {
      const { stdout } = await inside(name, "ls node_modules node_modules/@libsql; tr '\\0' ' ' < /proc/1/cmdline");
      expect(stdout).toMatch(/^node_modules:\n@libsql\n\nnode_modules\/@libsql:\nlinux-\w+-gnu\ntini -- node services/);
      await inside(name, "git --version && ssh -V && test -s /etc/ssl/certs/ca-certificates.crt");
      // Started and left by a shell that is gone before it ends: PID 1 is its parent then.
      await inside(name, "sh -c 'sleep 0.1 &'");
      await until("no zombie is left", async () => {
        const states = await inside(name, "cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | cut -c1", {
          anyCode: true,
        });
        return !states.stdout.includes("Z");
      });
    }
  });

  test("come from images below 350 MB", async () => {
    for (const image of ["orchestrator-scheduler:test", "orchestrator-stager:test"]) {
      const bytes = Number((await docker(["image", "inspect", "-f", "{{.Size}}", image])).stdout);
      process.stdout.write(`${image}: ${Math.round(bytes / 1e6)} MB\n`);
      expect(bytes).toBeLessThan(350e6);
    }
  });
});

describe("at work", () => {
  beforeAll(site.configure);

  test("one item goes to done", async () => {
    await post("ITEM-1");
    const task = await done("ITEM-1");
    expect(task.runs.map(({ outcome }) => outcome)).toEqual(Array(7).fill("succeeded"));
    const { stdout } = await inside(
      SCHEDULER,
      "git -C /demo/shop.git show work/ITEM-1:docs/work-items/ITEM-1/15-staging-log.md",
    );
    expect(stdout).toContain("staging_status: SUCCESS");
  });

  test("the kernel refuses what a stager writes to the database or a mirror", async () => {
    const attempts = [
      "echo x >> /data/orchestrator.db",
      "touch /data/x /data/secrets/x",
      "rm /data/orchestrator.db",
      'node --no-warnings -e \'new (require("node:sqlite").DatabaseSync)("/data/orchestrator.db").exec("DELETE FROM tasks")\'',
      "git -C /repos/shop.git update-ref refs/heads/main refs/heads/work/ITEM-1",
      "echo x > /repos/shop.git/HEAD",
    ];
    for (const attempt of attempts) {
      const { code, output } = await inside(await stager(), attempt, { anyCode: true });
      expect(code, attempt).not.toBe(0);
      expect(output, attempt).toMatch(READ_ONLY);
    }
    expect((await readTask("ITEM-1")).status).toBe("done");
  });

  test("a second scheduler is refused by its name", async () => {
    const { output } = await compose(["up", "--detach", "--no-build", "--scale", "scheduler=2"], { anyCode: true });
    expect(output).toMatch(/unique|conflict|container_name|custom container name/i);
    expect(await containersOf("scheduler")).toHaveLength(1);
    await until("the scheduler answers", isReady);
    await healthy(await stager());
  });

  test("a second scheduler on the same volumes exits with 75 at once, naming the first", async () => {
    const holder = (await inspect(SCHEDULER)).Id.slice(0, 12);
    const volumes = ["data:/data", "repos:/repos", "workspaces:/workspaces"].flatMap((v) => ["-v", `${PROJECT}_${v}`]);
    const { code, output } = await docker(["run", "--rm", ...volumes, "orchestrator-scheduler:test"], {
      anyCode: true,
      timeoutMs: 20_000,
    });
    expect(code).toBe(75);
    expect(output).toContain(`another scheduler works on this database: pid`);
    expect(output).toContain(holder);
    expect(await isReady()).toBe(true);
  });

  test("kill -9 of the scheduler's container in the middle of an item: ready again soon, and the item ends done", async () => {
    await site.holdAgents();
    await post("KILLED-1");
    await working("KILLED-1", "analysis");
    const before = await inspect(SCHEDULER);
    process.kill(before.State.Pid, "SIGKILL");
    const killedAt = performance.now();
    await until(
      "the scheduler has been started again and is ready",
      async () => (await inspect(SCHEDULER)).RestartCount > before.RestartCount && (await isReady()),
      30_000,
      20,
    );
    const readyMs = performance.now() - killedAt;
    process.stdout.write(`ready ${Math.round(readyMs)} ms after kill -9 of the scheduler\n`);
    expect(readyMs).toBeLessThan(5000 * busyness());
    await site.letAgentsGo();
    const task = await done("KILLED-1");
    expect(task.runs[0]?.outcome).toBe("interrupted");
    expect(task.runs.filter(({ outcome }) => outcome === "succeeded")).toHaveLength(7);
  });

  test("kill -9 of the stager's container in the middle of a staging run: it comes back, and the item ends done", async () => {
    await site.holdStaging();
    await post("KILLED-2");
    await working("KILLED-2", "deploy-staging");
    const id = await stager();
    const before = await inspect(id);
    process.kill(before.State.Pid, "SIGKILL");
    await until(
      "the stager has been started again",
      async () => (await inspect(id)).RestartCount > before.RestartCount,
    );
    await healthy(id);
    await site.letStagingGo();
    const task = await done("KILLED-2");
    expect(task.events.map(({ kind }) => kind)).toContain("deferred");
    expect(task.runs.filter(({ outcome }) => outcome === "failed")).toEqual([]);
  });

  test("a restart of the scheduler leaves the stager able to work", async () => {
    const before = (await inspect(await stager())).RestartCount;
    await docker(["restart", SCHEDULER]);
    await until("the scheduler is ready", isReady);
    await post("RESTARTED-1");
    await done("RESTARTED-1");
    expect((await inspect(await stager())).RestartCount).toBe(before);
  });

  test("two stagers share the work", async () => {
    await compose(["up", "--detach", "--no-build", "--scale", "stager=2"]);
    const both = await stagers();
    expect(both).toHaveLength(2);
    for (const id of both) await healthy(id);
    const items = ["TWO-1", "TWO-2", "TWO-3"];
    for (const item of items) await post(item);
    for (const item of items) await done(item);
    await compose(["up", "--detach", "--no-build", "--scale", "stager=1"]);
    expect(await stagers()).toHaveLength(1);
    await healthy(await stager());
  });

  test("a stop ends both with 0 and loses no job, and what was interrupted goes on after the start", async () => {
    await site.holdAgents();
    await post("STOPPED-1");
    await working("STOPPED-1", "analysis");
    const id = await stager();
    await compose(["stop"]);
    expect((await inspect(SCHEDULER)).State).toMatchObject({ Status: "exited", ExitCode: 0 });
    expect((await inspect(id)).State).toMatchObject({ Status: "exited", ExitCode: 0 });
    await compose(["start"]);
    await until("the scheduler is ready", isReady);
    await site.letAgentsGo();
    const task = await done("STOPPED-1");
    expect(task.runs[0]?.outcome).toBe("interrupted");
    expect(task.runs.filter(({ outcome }) => outcome === "succeeded")).toHaveLength(7);
  });

  test("an agent that wants too much memory is killed, and the scheduler is not", async () => {
    const { State, RestartCount } = await inspect(SCHEDULER);
    await inside(SCHEDULER, "touch /demo/eat");
    await post("GREEDY-1");
    const task = await until("the greedy run has ended", async () => {
      const seen = await readTask("GREEDY-1");
      return seen.runs.some(({ outcome }) => outcome !== null) && seen;
    });
    await inside(SCHEDULER, "rm /demo/eat");
    expect(task.runs[0]).toMatchObject({ outcome: "tool_error", signal: "SIGKILL" });
    const after = await inspect(SCHEDULER);
    expect([after.State.Pid, after.RestartCount]).toEqual([State.Pid, RestartCount]);
    await act("/tasks/GREEDY-1/cancel", {});
  });

  test("what was there is there after an upgrade, which makes both containers anew", async () => {
    const before = (await inspect(SCHEDULER)).Id;
    const token = await readToken();
    await compose(["up", "--detach", "--no-build", "--force-recreate"]);
    await healthy(await stager());
    expect((await inspect(SCHEDULER)).Id).not.toBe(before);
    expect(await readToken()).toBe(token);
    expect((await readTask("ITEM-1")).status).toBe("done");
    await post("UPGRADED-1");
    await done("UPGRADED-1");
  });

  test("from the start of the container to ready it is less than a second (median of 5)", async () => {
    const starts: number[] = [];
    const sinceCommand: number[] = [];
    for (let round = 0; round < 5; round++) {
      await docker(["stop", SCHEDULER]);
      const commandAt = performance.now();
      const started = docker(["start", SCHEDULER]);
      await until("the scheduler is ready", isReady, 30_000, 5);
      sinceCommand.push(performance.now() - commandAt);
      const readyAt = Date.now();
      await started;
      starts.push(readyAt - Date.parse((await inspect(SCHEDULER)).State.StartedAt));
    }
    const median = (times: number[]) => Math.round(times.sort((a, b) => a - b)[2] ?? Number.NaN);
    process.stdout.write(
      `ready ${median(starts)} ms after the container's start (${median(sinceCommand)} ms after \`docker start\`)\n`,
    );
    expect(median(starts)).toBeLessThan(1000 * busyness());
  });
});
