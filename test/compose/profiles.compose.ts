import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHECKOUT, compose, containersOf, docker, inside, PROJECT, PROMETHEUS_PORT, run, SCHEDULER } from "./engine.ts";
import { healthy, readTask, readToken, stager, until } from "./site.ts";

const DEMO = { ORCH_CONFIG: "/app/demo.yaml" };
const PROFILES = ["--profile", "demo", "--profile", "monitoring"];
const ITEM = "ORCH-115";

beforeAll(async () => {
  await compose([...PROFILES, "up", "--detach", "--no-build"], { env: DEMO });
});
afterAll(async () => {
  await compose([...PROFILES, "down", "--volumes", "--remove-orphans"]);
});

test("profile demo: one item goes from analysis to done, with the composition's own services", async () => {
  const [demo = ""] = await containersOf("demo");
  const code = (await docker(["wait", demo])).stdout.trim();
  const { output } = await docker(["logs", demo]);
  expect(code, output).toBe("0");
  expect(output).toContain(`${ITEM} is done`);
  for (const stage of ["architecture", "development", "review", "testing", "deploy-staging", "deploy"]) {
    expect(output).toContain(`→ ${stage}`);
  }
});

describe("profile monitoring", () => {
  const ask = async <T>(path: string): Promise<T> => {
    const answer = await fetch(`http://127.0.0.1:${PROMETHEUS_PORT}/api/v1/${path}`);
    if (!answer.ok) throw new Error(`${path}: ${answer.status}: ${await answer.text()}`);
    return ((await answer.json()) as { data: T }).data;
  };
  const query = async (text: string): Promise<number[]> => {
    const { result } = await ask<{ result: { value: [number, string] }[] }>(`query?query=${encodeURIComponent(text)}`);
    return result.map(({ value }) => Number(value[1]));
  };

  test("a Prometheus scrapes both services without an error", async () => {
    interface Target {
      labels: { job: string };
      health: string;
      lastError: string;
    }
    const up = await until("both targets are up", async () => {
      const { activeTargets } = await ask<{ activeTargets: Target[] }>("targets").catch(() => ({ activeTargets: [] }));
      return activeTargets.filter(({ health }) => health === "up").length === 2 && activeTargets;
    });
    expect(up.map(({ labels }) => labels.job).sort()).toEqual(["scheduler", "stager"]);
    expect(up.map(({ lastError }) => lastError)).toEqual(["", ""]);
    // What the scrape after the end of the item brings.
    await until("the item is counted", async () => (await query('orchestrator_tasks{status="done"} > 0'))[0] === 1);
    await until(
      "its staging run is counted",
      async () => (await query('stager_outcomes_total{outcome="success"}'))[0] === 1,
    );
  });

  test("it has the rules, and none of them fires", async () => {
    const { groups } = await ask<{ groups: { rules: { name: string; state: string; health: string }[] }[] }>("rules");
    const rules = groups.flatMap((group) => group.rules);
    const names = rules.map(({ name }) => name);
    for (const name of ["SchedulerDown", "StagerDown", "JobStuck", "FinalizerOld", "TaskBlocked", "Paused"]) {
      expect(names).toContain(name);
    }
    await until("all rules have been looked at", async () => {
      const seen = await ask<{ groups: { rules: { health: string }[] }[] }>("rules");
      return seen.groups.flatMap((group) => group.rules).every(({ health }) => health === "ok");
    });
    expect(rules.filter(({ state }) => state === "firing")).toEqual([]);
  });

  test("promtool finds nothing in the configuration and the rules, and each rule fires when it must", async () => {
    const promtool = (args: string[], input = "") =>
      docker(
        [
          ...[
            "run",
            "--rm",
            "-i",
            "--volume",
            `${CHECKOUT}:/src:ro`,
            "--workdir",
            "/src",
            "--entrypoint",
            "/bin/promtool",
          ],
          ...["prom/prometheus:debian", ...args],
        ],
        { input },
      );
    await promtool(["check", "config", "--syntax-only", "services/monitoring/prometheus.yml"]);
    await promtool(["check", "rules", "services/monitoring/alerts.yml"]);
    await promtool(["test", "rules", "test/compose/alerts.test.yml"]);
    for (const [container, port] of [
      [SCHEDULER, 8080],
      [await stager(), 8081],
    ] as const) {
      const ask = `fetch("http://127.0.0.1:${port}/queue?format=prometheus").then(async (r) => console.log(await r.text()))`;
      await promtool(["check", "metrics"], (await docker(["exec", container, "node", "-e", ask])).stdout);
    }
  });
});

test("a backup made at work is restored on empty volumes", async () => {
  const folder = await mkdtemp(join(tmpdir(), "compose-backup-"));
  try {
    const tar = join(folder, "backup.tar");
    const [token, { head }] = [await readToken(), await readTask(ITEM)];
    await run("sh", ["-c", `docker exec ${SCHEDULER} node services/backup/main.mjs > ${tar}`]);
    expect((await stat(tar)).size).toBeGreaterThan(10_000);

    await compose([...PROFILES, "down", "--volumes"]);
    await compose(["up", "--no-start", "--no-build"]);
    const volumes = ["data:/data", "repos:/repos"].flatMap((volume) => ["-v", `${PROJECT}_${volume}`]);
    const restore = [
      "run",
      "--rm",
      "-i",
      ...volumes,
      "orchestrator-scheduler:test",
      "node",
      "services/restore/main.mjs",
    ];
    await run("sh", ["-c", `docker ${restore.join(" ")} < ${tar}`]);
    await compose(["up", "--detach", "--no-build"], { env: DEMO });
    await healthy(SCHEDULER);
    await healthy(await stager());
    expect(await readToken()).toBe(token);
    expect(await readTask(ITEM)).toMatchObject({ status: "done", head });
    expect((await inside(SCHEDULER, `git -C /repos/greeter.git cat-file -t ${head}`)).stdout).toBe("commit\n");
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("agent programs that a build names are in the scheduler's PATH, and in no other image", async () => {
  // Small, and as an agent's package is: with a command.
  await compose(["build", "scheduler"], {
    env: { AGENTS: "yaml@2.9.1", ORCH_VERSION: "test-agents" },
    timeoutMs: 600_000,
  });
  const find = (image: string) =>
    docker(["run", "--rm", "--read-only", image, "sh", "-c", "command -v yaml; echo 'a: 1' | yaml --json --single"], {
      anyCode: true,
    });
  try {
    expect((await find("orchestrator-scheduler:test-agents")).stdout).toMatch(/^\/opt\/agents\/bin\/yaml\n/);
    expect((await find("orchestrator-scheduler:test")).code).not.toBe(0);
  } finally {
    await docker(["image", "rm", "orchestrator-scheduler:test-agents"]);
  }
});
