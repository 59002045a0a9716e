import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { agentFor } from "@orchestrator/shared/config/agent_for.ts";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { DEFAULT_PIPELINE } from "@orchestrator/shared/pipeline.ts";
import { describe, expect, test } from "vitest";
import { configFolder, configOf, faultsOf, warningsOf } from "./config_folder.ts";

const { folder, path, load } = configFolder();

const FULL = `
repos:
  shop: { url: ../shop.git, base_branch: trunk, push: false, merge: squash, environment: shop-eu, plan: base }
  tool: { url: "git@example.com:team/tool.git" }
agents:
  default:   { command: [claude, -p], model: claude-opus-4-8 }
  developer: { command: [./bin/dev, "{prompt}"], timeout_s: 3600, stall_timeout_s: 0, env: { KEY: $OPENAI_API_KEY, B: "\${OTHER}", C: a$B, D: "" } }
limits: { total: 9, per_repo: { default: 2, shop: 1 }, per_agent: { developer: 2, default: 3 } }
notify: { url: "https://hooks.example/x?y=z", on: [blocked, done] }
pipeline:
  max_returns: 5
  stages:
    - { name: design, agent: architect, artifact: 06-design.md }
    - name: development
      agent: developer
      artifact: 11-development-log.md
      writes: code
      max_attempts: 1
      gate: { key: dev_status, pass: [DONE, ENOUGH], fail: [GAVE_UP], on_fail: blocked }
    - name: deploy
      agent: deployer
      artifact: 16-deploy-log.md
      approval: true
      gate: { key: deploy_status, pass: [SUCCESS], fail: [FAILED], on_fail: design }
`;

describe("a whole file", () => {
  const env = { OPENAI_API_KEY: "k-1", OTHER: "" };

  test("is taken with defaults filled in and paths relative to the file", () => {
    const config = configOf(load(FULL, env));
    expect(config.repos).toEqual({
      shop: {
        url: join(folder, "..", "shop.git"),
        baseBranch: "trunk",
        push: false,
        merge: "squash",
        environment: "shop-eu",
        plan: "base",
      },
      tool: {
        url: "git@example.com:team/tool.git",
        baseBranch: "main",
        push: true,
        merge: "none",
        environment: "tool",
        plan: "branch",
      },
    });
    expect(config.agents).toEqual({
      default: {
        command: ["claude", "-p"],
        model: "claude-opus-4-8",
        timeoutMs: 7_200_000,
        stallTimeoutMs: 1_800_000,
        env: {},
      },
      developer: {
        command: [join(folder, "bin/dev"), "{prompt}"],
        model: null,
        timeoutMs: 3_600_000,
        stallTimeoutMs: 0,
        env: { KEY: "k-1", B: "", C: "a$B", D: "" },
      },
    });
    expect(config.limits).toEqual({
      total: 9,
      perRepo: { default: 2, shop: 1 },
      perAgent: { developer: 2, default: 3 },
    });
    expect(config.notify).toEqual({
      target: { kind: "url", url: "https://hooks.example/x?y=z", secret: null },
      on: ["blocked", "done"],
    });
    expect(config.pipeline).toEqual({
      maxReturns: 5,
      stages: [
        {
          name: "design",
          agent: "architect",
          artifact: "06-design.md",
          gate: null,
          writes: "docs",
          maxAttempts: 3,
          approval: false,
          rerun: true,
        },
        {
          name: "development",
          agent: "developer",
          artifact: "11-development-log.md",
          gate: { key: "dev_status", pass: ["DONE", "ENOUGH"], fail: ["GAVE_UP"], onFail: "blocked" },
          writes: "code",
          maxAttempts: 1,
          approval: false,
          rerun: true,
        },
        {
          name: "deploy",
          agent: "deployer",
          artifact: "16-deploy-log.md",
          gate: { key: "deploy_status", pass: ["SUCCESS"], fail: ["FAILED"], onFail: "design" },
          writes: "docs",
          maxAttempts: 3,
          approval: true,
          rerun: false,
        },
      ],
    });
    expect(config.configPath).toBe(path);
  });

  test("is the same with CRLF and a BOM", () => {
    const { parentEnv: _, ...config } = configOf(load(FULL, env));
    expect(configOf(load(`\ufeff${FULL.replaceAll("\n", "\r\n")}`, env))).toMatchObject(config);
  });

  test("the environment wins over it", () => {
    const config = configOf(load(FULL, { ...env, ORCH_MAX_CONCURRENT_JOBS: "2" }));
    expect(config.limits).toMatchObject({ total: 2, perRepo: { shop: 1 } });
  });

  test("the environment's timeouts are those of agents without their own", () => {
    const config = configOf(load(FULL, { ...env, ORCH_JOB_TIMEOUT_MS: "5", ORCH_STALL_TIMEOUT_MS: "6" }));
    expect(config.agents["default"]).toMatchObject({ timeoutMs: 5, stallTimeoutMs: 6 });
    expect(config.agents["developer"]).toMatchObject({ timeoutMs: 3_600_000, stallTimeoutMs: 0 });
  });

  test("a stager needs none of the agents' keys and gets none", () => {
    const config = configOf(load(FULL, {}, "stager"));
    expect(config.agents["developer"]?.env).toEqual({});
    expect(config.repos["shop"]?.plan).toBe("base");
    expect(load(FULL, {}, "scheduler").kind).toBe("invalid");
  });

  test("names that every object inherits are not there", () => {
    const { repos, agents, limits } = configOf(load(FULL, env));
    for (const name of ["constructor", "toString", "__proto__"]) {
      expect(repos[name]).toBeUndefined();
      expect(agentFor(agents, name)).toBe(agents["default"]);
      expect(limits.perRepo[name]).toBeUndefined();
    }
  });
});

test.each<[name: string, yaml: string]>([
  ["empty", ""],
  ["only comments", "# repos:\n"],
  ["only a document mark", "---\n"],
  ["sections without entries", "repos:\nagents:\nlimits:\nnotify:\npipeline:\n"],
])("a file that is %s is a configuration of defaults", (_, yaml) => {
  const config = configOf(load(yaml));
  expect(config).toMatchObject({ repos: {}, agents: {}, limits: { total: 4 }, notify: null });
  expect(config.pipeline).toEqual(DEFAULT_PIPELINE);
});

test.each<[yaml: string, url: string]>([
  ["../a/b.git", join(folder, "../a/b.git")],
  ["./a b", join(folder, "a b")],
  ["a/b:c", join(folder, "a/b:c")],
  ["./a:b", join(folder, "a:b")],
  ["/srv/a.git", "/srv/a.git"],
  ["file:///srv/a.git", "file:///srv/a.git"],
  ["https://example.com/a.git", "https://example.com/a.git"],
  ["ssh://git@example.com:22/a.git", "ssh://git@example.com:22/a.git"],
  ["git://example.com/a", "git://example.com/a"],
  ["example.com:a.git", "example.com:a.git"],
])("the repository url %s", (written, url) => {
  expect(configOf(load(`repos: { r: { url: "${written}" } }`)).repos["r"]?.url).toBe(url);
});

test("notifications by a command, and a secret from the environment", () => {
  expect(configOf(load("notify: { command: [bin/tell, me] }")).notify).toEqual({
    target: { kind: "command", command: [join(folder, "bin/tell"), "me"] },
    on: ["waiting", "blocked", "done", "paused"],
  });
  const yaml = 'notify: { url: "https://x", secret: $HOOK }';
  expect(configOf(load(yaml, { HOOK: "s" })).notify?.target).toEqual({ kind: "url", url: "https://x", secret: "s" });
});

test("anchors and aliases", () => {
  const yaml = "agents:\n  default: &one { command: [claude, -p] }\n  developer: *one\n";
  expect(configOf(load(yaml)).agents["developer"]?.command).toEqual(["claude", "-p"]);
});

describe("where the file is", () => {
  test("in the data directory by default", () => {
    mkdirSync(join(folder, "data"), { recursive: true });
    load("limits: { total: 8 }");
    const config = configOf(loadConfig({ ORCH_DATA_DIR: folder }, { cwd: "/", service: "scheduler" }));
    expect(config).toMatchObject({ configPath: path, limits: { total: 8 } });
  });

  test("where ORCH_CONFIG says, relative to the working directory", () => {
    load("limits: { total: 8 }");
    const config = configOf(loadConfig({ ORCH_CONFIG: "orchestrator.yaml" }, { cwd: folder, service: "scheduler" }));
    expect(config.limits.total).toBe(8);
  });

  test("a default one may be missing, a named one may not", () => {
    const missing = join(folder, "none.yaml");
    expect(loadConfig({ ORCH_DATA_DIR: "/none" }, { cwd: folder, service: "scheduler" }).kind).toBe("ok");
    expect(faultsOf(loadConfig({ ORCH_CONFIG: missing }, { cwd: folder, service: "scheduler" }))).toEqual([
      `ORCH_CONFIG: found no file at "${missing}", accepted: the path of a YAML file that can be read`,
    ]);
  });

  test("a directory is none", () => {
    const directory = join(folder, "directory.yaml");
    mkdirSync(directory);
    expect(faultsOf(loadConfig({ ORCH_CONFIG: directory }, { cwd: folder, service: "scheduler" }))).toEqual([
      `ORCH_CONFIG: found "${directory}", which cannot be read (EISDIR), accepted: the path of a YAML file that can be read`,
    ]);
    rmSync(directory, { recursive: true });
  });

  test("a named one may be missing for whoever is about to put it there; one that is there is read all the same", () => {
    const named = (ORCH_CONFIG: string) =>
      loadConfig({ ORCH_CONFIG }, { cwd: folder, service: "scheduler", configMayBeMissing: true });
    const missing = join(folder, "none/none.yaml");
    expect(configOf(named(missing))).toMatchObject({ configPath: missing, limits: { total: 4 } });
    load("limits: { total: 9 }");
    expect(configOf(named(path)).limits.total).toBe(9);
    load("limit: 9");
    expect(faultsOf(named(path))).toHaveLength(1);
    expect(faultsOf(named(folder))).toEqual([expect.stringContaining("which cannot be read (EISDIR)")]);
  });

  test("a file that is not UTF-8 is none", () => {
    expect(faultsOf(load(Uint8Array.of(0x61, 0xff)))).toEqual([
      `ORCH_CONFIG: found "${path}", which is not UTF-8, accepted: the path of a YAML file that can be read`,
    ]);
  });
});

describe("warnings", () => {
  const repo = "repos: { r: { url: /r } }\n";

  test("none where every stage has its program", () => {
    expect(warningsOf(load(`${repo}agents: { default: { command: [x] } }`))).toEqual([]);
  });

  test("stages without a program, and agents without a stage", () => {
    const agents = "analyst architect developer reviewer tester".split(" ").map((name) => `${name}: { command: [x] }`);
    expect(warningsOf(load(`${repo}agents: { ${agents.join(", ")}, develper: { command: [x] } }`))).toEqual([
      `no program is configured for deployer: set agents.default, or each by its name, in ${path}`,
      "agents.develper is used by no stage of the pipeline, whose agents are analyst, architect, developer, reviewer, tester, deployer",
    ]);
  });

  test("the staging runner's stage needs no program, unless it is switched off", () => {
    const stage =
      "{ name: deploy-staging, agent: deployer, artifact: 15-staging-log.md, gate: { key: staging_status, pass: [SUCCESS], fail: [FAILED], on_fail: blocked } }";
    const yaml = `${repo}pipeline: { stages: [${stage}] }`;
    expect(warningsOf(load(yaml))).toEqual([]);
    expect(warningsOf(load(yaml, { ORCH_STAGING_RUNNER_ENABLED: "false" }))).toEqual([
      `no program is configured for deployer: set agents.default, or each by its name, in ${path}`,
    ]);
  });

  test.each([
    ["the staging runner", "deployer", "true", true],
    ["the deployer, in its place", "deployer", "false", false],
    ["another agent", "tester", "true", false],
  ])("rerun: false on a staging stage that is worked by %s", (_, agent, enabled, isWarned) => {
    const gate = "gate: { key: staging_status, pass: [SUCCESS], fail: [FAILED], on_fail: development }";
    const yaml = `${repo}agents: { default: { command: [x] } }
pipeline:
  stages:
    - { name: development, agent: developer, artifact: 11-development-log.md, rerun: false }
    - { name: deploy-staging, agent: ${agent}, artifact: 15-staging-log.md, rerun: false, ${gate} }
`;
    const warned =
      "pipeline.stages[1].rerun: false has no effect while the staging runner works the stage, whose runs without a " +
      "verdict come again: set ORCH_STAGING_RUNNER_ENABLED=false to have an agent work it, or take the key out";
    expect(warningsOf(load(yaml, { ORCH_STAGING_RUNNER_ENABLED: enabled }))).toEqual(isWarned ? [warned] : []);
  });

  test.each(["https://me:hunter2@example.com/r", "https://hunter2@example.com/r", "ssh://git:hunter2@example.com/r"])(
    "a password in a url: %s",
    (url) => {
      const warnings = warningsOf(load(`repos: { r: { url: "${url}" } }\nagents: { default: { command: [x] } }`));
      expect(warnings).toEqual(["repos.r.url holds a password, which git may print: use a credential helper instead"]);
    },
  );
});
