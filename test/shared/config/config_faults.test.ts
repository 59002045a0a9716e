import { describe, expect, test } from "vitest";
import { configFolder, faultsOf } from "./config_folder.ts";

const { path, load } = configFolder();

const NAME = "a name of letters, digits, '.', '_' and '-' that begins with a letter (at most 64)";
const REPO_NAME = `${NAME} and is not default`;
const HIDDEN = "a text (not shown here)";
const GIT_URL = "a path, an https, http, ssh, git or file URL, or user@host:path";
const ARGV = "a list: a program and its arguments, each a text (there is no shell)";
const ENV_VALUE = "a text (put it in quotes), or $NAME to take it from the environment";
const LIMIT = "a whole number from 1 to 1000";
const SECTIONS = "repos, agents, limits, notify, pipeline";

/** A pipeline of a first stage that is in order and a second one with these changes. */
const second = (stage: string): string =>
  `pipeline:\n  stages:\n    - { name: design, agent: a, artifact: 01.md }\n    - { ${stage} }\n`;
const gate = (entries: string): string => second(`name: check, agent: a, artifact: 02.md, gate: { ${entries} }`);
const GATE = "key: k, pass: [YES], fail: [NOPE], on_fail: design";
const stagingStage = (more: string): string =>
  `pipeline: { stages: [{ name: deploy-staging, agent: deployer, ${more} }] }`;

describe("one line for each fault", () => {
  test.each<[yaml: string, ...faults: string[]]>([
    // The file as a whole.
    ["- a\n", `1: found a list, accepted: a mapping with the keys ${SECTIONS}`],
    ["hello\n", `1: found ${HIDDEN}, accepted: a mapping with the keys ${SECTIONS}`],
    ["\nrepositories: {}\n", `2: repositories: unknown key, accepted: ${SECTIONS}`],
    ["repos:\n  a: { url: x }\n  a: { url: y }\n", '3: duplicate key "a", first on line 2'],
    ["limits:\n\ttotal: 1\n", "2: a tab is used as indentation; use spaces"],
    ["repos:\n  r: { url: x\nagents: {}\n", "3: the indentation does not fit the lines around it"],
    ["a: b: c\n", "1: a second ': ' or '- ' in a line; put the value in quotes, or what it nests on lines of its own"],
    ["limits: { total: 1 }\n---\nlimits: {}\n", "2: a second YAML document; one is accepted"],
    ["agents: { x: { command: [a], env: { K: *hunter2 } } }\n", "1: an alias that names no anchor before it"],
    [
      "\nagents: { x: { command: [a], env: { K: !hunter2 } } }\n",
      "2: a tag that is not accepted, or does not fit its value; put a value that begins with '!' in quotes",
    ],
    ['agents:\n  x: { command: [a], env: { K: "hunter2 } }\n', "2: a quotation mark is not closed"],
    // Repositories.
    ["repos: []\n", "1: repos: found an empty list, accepted: a mapping of repository names to their settings"],
    ["repos: hunter2\n", `1: repos: found ${HIDDEN}, accepted: a mapping of repository names to their settings`],
    [
      "repos:\n  shop:\n",
      "2: repos.shop: found nothing, accepted: a mapping with the keys url, base_branch, push, merge, environment, plan",
    ],
    ["repos:\n  shop: {}\n", `2: repos.shop.url: missing, accepted: ${GIT_URL}`],
    ["repos:\n  shop: { url: '' }\n", `2: repos.shop.url: found an empty text, accepted: ${GIT_URL}`],
    ["repos:\n  shop: { url: 5 }\n", `2: repos.shop.url: found a number, accepted: ${GIT_URL}`],
    ["repos:\n  shop: { url: 'ext::sh -c hunter2' }\n", `2: repos.shop.url: found ${HIDDEN}, accepted: ${GIT_URL}`],
    ["repos:\n  shop: { url: '-uhunter2' }\n", `2: repos.shop.url: found ${HIDDEN}, accepted: ${GIT_URL}`],
    ["repos:\n  shop: { url: 'ftp://a:hunter2@b' }\n", `2: repos.shop.url: found ${HIDDEN}, accepted: ${GIT_URL}`],
    [
      "repos:\n  shop: { url: 'ssh://-oProxyCommand=x/y' }\n",
      `2: repos.shop.url: found ${HIDDEN}, accepted: ${GIT_URL}`,
    ],
    ["repos:\n  shop: { url: '-x@host:y' }\n", `2: repos.shop.url: found ${HIDDEN}, accepted: ${GIT_URL}`],
    ["repos:\n  shop: { url: 'file://x' }\n", `2: repos.shop.url: found ${HIDDEN}, accepted: ${GIT_URL}`],
    ['repos:\n  shop: { url: "a\\nb" }\n', `2: repos.shop.url: found ${HIDDEN}, accepted: ${GIT_URL}`],
    [
      "repos:\n  shop:\n    url: x\n    base_branch: a..b\n",
      '4: repos.shop.base_branch: found "a..b", accepted: a branch name that git accepts',
    ],
    ["repos:\n  shop: { url: x, push: yes }\n", '2: repos.shop.push: found "yes", accepted: true or false'],
    ["repos:\n  shop: { url: x, push: 1 }\n", "2: repos.shop.push: found 1, accepted: true or false"],
    [
      "repos:\n  shop: { url: x, merge: rebase }\n",
      '2: repos.shop.merge: found "rebase", accepted: one of none, merge, squash',
    ],
    [
      "repos:\n  shop: { url: x, merge: }\n",
      "2: repos.shop.merge: found nothing, accepted: one of none, merge, squash",
    ],
    ["repos:\n  shop: { url: x, plan: head }\n", '2: repos.shop.plan: found "head", accepted: one of branch, base'],
    ["repos:\n  shop: { url: x, environment: a/b }\n", `2: repos.shop.environment: found "a/b", accepted: ${NAME}`],
    [
      "repos:\n  shop: { url: x, branch: main, remote: y }\n",
      "2: repos.shop.branch: unknown key, accepted: url, base_branch, push, merge, environment, plan",
      "2: repos.shop.remote: unknown key, accepted: url, base_branch, push, merge, environment, plan",
    ],
    ["repos:\n  ../x: { url: x }\n", `2: repos["../x"]: found this name, accepted: ${REPO_NAME}`],
    ["repos:\n  a..b: { url: x }\n", `2: repos["a..b"]: found this name, accepted: ${REPO_NAME}`],
    ["repos:\n  a.lock: { url: x }\n", `2: repos["a.lock"]: found this name, accepted: ${REPO_NAME}`],
    ["repos:\n  .git: { url: x }\n", `2: repos[".git"]: found this name, accepted: ${REPO_NAME}`],
    ["repos:\n  -a: { url: x }\n", `2: repos.-a: found this name, accepted: ${REPO_NAME}`],
    ["repos:\n  1: { url: x }\n", `2: repos.1: found this name, accepted: ${REPO_NAME}`],
    ["repos:\n  default: { url: x }\n", `2: repos.default: found this name, accepted: ${REPO_NAME}`],
    [
      `repos:\n  ${"a".repeat(65)}: { url: x }\n`,
      `2: repos.${"a".repeat(65)}: found this name, accepted: ${REPO_NAME}`,
    ],
    [
      "repos:\n  __proto__: { url: x }\n",
      "2: repos.__proto__: found a name with a meaning of its own in the program, accepted: another name",
    ],
    [
      "repos:\n  constructor: { url: x }\n",
      "2: repos.constructor: found a name with a meaning of its own in the program, accepted: another name",
    ],
    // Agents.
    ["agents:\n  default: {}\n", `2: agents.default.command: missing, accepted: ${ARGV}`],
    [
      "agents:\n  default: { command: claude -p hunter2 }\n",
      `2: agents.default.command: found ${HIDDEN}, accepted: ${ARGV}`,
    ],
    ["agents:\n  default: { command: [] }\n", `2: agents.default.command: found an empty list, accepted: ${ARGV}`],
    ["agents:\n  default: { command: ['', x] }\n", `2: agents.default.command: found a list, accepted: ${ARGV}`],
    [
      "agents:\n  default:\n    command:\n      - claude\n      - 5\n",
      "5: agents.default.command[1]: found a number, accepted: a text (put it in quotes)",
    ],
    [
      'agents:\n  default: { command: ["a\\0b"] }\n',
      `2: agents.default.command[0]: found ${HIDDEN}, accepted: a text without NUL`,
    ],
    [
      "agents:\n  default: { command: [x], timeout_s: 0 }\n",
      "2: agents.default.timeout_s: found 0, accepted: a whole number from 1 to 2147483",
    ],
    [
      "agents:\n  default: { command: [x], timeout_s: 1.5 }\n",
      "2: agents.default.timeout_s: found 1.5, accepted: a whole number from 1 to 2147483",
    ],
    [
      "agents:\n  default: { command: [x], timeout_s: .nan }\n",
      "2: agents.default.timeout_s: found NaN, accepted: a whole number from 1 to 2147483",
    ],
    [
      "agents:\n  default: { command: [x], timeout_s: .inf }\n",
      "2: agents.default.timeout_s: found Infinity, accepted: a whole number from 1 to 2147483",
    ],
    [
      "agents:\n  default: { command: [x], timeout_s: 1h }\n",
      '2: agents.default.timeout_s: found "1h", accepted: a whole number from 1 to 2147483',
    ],
    [
      "agents:\n  default: { command: [x], stall_timeout_s: -1 }\n",
      "2: agents.default.stall_timeout_s: found -1, accepted: a whole number from 0 to 2147483",
    ],
    [
      "agents:\n  default: { command: [x], model: '' }\n",
      '2: agents.default.model: found "", accepted: a model\'s name (at most 200 characters)',
    ],
    [
      "agents:\n  default: { command: [x], shell: true }\n",
      "2: agents.default.shell: unknown key, accepted: command, model, timeout_s, stall_timeout_s, env",
    ],
    ["agents:\n  a b: { command: [x] }\n", `2: agents["a b"]: found this name, accepted: ${NAME}`],
    [
      "agents:\n  a: { command: [x], env: hunter2 }\n",
      `2: agents.a.env: found ${HIDDEN}, accepted: a mapping of variable names to texts`,
    ],
    [
      "agents:\n  a: { command: [x], env: { PIN: 1234 } }\n",
      `2: agents.a.env.PIN: found a number, accepted: ${ENV_VALUE}`,
    ],
    [
      "agents:\n  a: { command: [x], env: { ON: true } }\n",
      `2: agents.a.env.ON: found a boolean, accepted: ${ENV_VALUE}`,
    ],
    [
      'agents:\n  a: { command: [x], env: { K: "hunter2\\0" } }\n',
      `2: agents.a.env.K: found ${HIDDEN}, accepted: a text without NUL`,
    ],
    [
      "agents:\n  a:\n    command: [x]\n    env:\n      1A: x\n      ORCH_RUN_ID: x\n",
      "5: agents.a.env.1A: found this name, accepted: a variable name (letters, digits and _) that does not begin with ORCH_",
      "6: agents.a.env.ORCH_RUN_ID: found this name, accepted: a variable name (letters, digits and _) that does not begin with ORCH_",
    ],
    [
      "agents:\n  a: { command: [x], env: { K: $NOT_SET } }\n",
      "2: agents.a.env.K: found $NOT_SET, which is not set, accepted: a text, or a variable that is set in the environment",
    ],
    [
      "agents:\n  a: { command: [x], env: { K: $ORCH_API_TOKEN } }\n",
      `2: agents.a.env.K: found ${HIDDEN}, accepted: a variable that is not the orchestrator's own: an agent is never given its tokens`,
    ],
    // Limits.
    ["limits: { total: 0 }\n", `1: limits.total: found 0, accepted: ${LIMIT}`],
    ["limits: { total: four }\n", `1: limits.total: found "four", accepted: ${LIMIT}`],
    ["limits: { total: 2.5 }\n", `1: limits.total: found 2.5, accepted: ${LIMIT}`],
    ["limits: { total: '4' }\n", `1: limits.total: found "4", accepted: ${LIMIT}`],
    ["limits: [4]\n", "1: limits: found a list, accepted: a mapping with the keys total, per_repo, per_agent"],
    ["limits: { per_repo: 2 }\n", "1: limits.per_repo: found 2, accepted: a mapping of names to whole numbers"],
    ["limits:\n  per_repo: { default: -2 }\n", `2: limits.per_repo.default: found -2, accepted: ${LIMIT}`],
    [
      "repos: { shop: { url: x } }\nlimits: { per_repo: { shpo: 1 } }\n",
      "2: limits.per_repo.shpo: found an unknown name, accepted: one of shop, default",
    ],
    [
      "limits: { per_agent: { develper: 1 } }\n",
      "1: limits.per_agent.develper: found an unknown name, accepted: one of analyst, architect, developer, reviewer, tester, deployer, default",
    ],
    [
      "limits: { totl: 1, perRepo: {} }\n",
      "1: limits.totl: unknown key, accepted: total, per_repo, per_agent",
      "1: limits.perRepo: unknown key, accepted: total, per_repo, per_agent",
    ],
    // Notifications.
    ["notify: { on: [done] }\n", "1: notify: found neither, accepted: either url or command"],
    ["notify: { url: 'https://x', command: [x] }\n", "1: notify: found both, accepted: either url or command"],
    ["notify: { url: 'hooks/hunter2' }\n", `1: notify.url: found ${HIDDEN}, accepted: an http:// or https:// URL`],
    [
      "notify: https://x/hunter2\n",
      `1: notify: found ${HIDDEN}, accepted: a mapping with the keys url, secret, command, on`,
    ],
    ["notify: { command: tell hunter2 }\n", `1: notify.command: found ${HIDDEN}, accepted: ${ARGV}`],
    [
      "notify: { command: [x], on: [] }\n",
      "1: notify.on: found an empty list, accepted: a list of waiting, blocked, done, paused",
    ],
    [
      "notify: { command: [x], on: [finished] }\n",
      '1: notify.on[0]: found "finished", accepted: one of waiting, blocked, done, paused',
    ],
    [
      "notify: { command: [x], secret: hunter2 }\n",
      "1: notify.secret: found a secret beside a command, accepted: a secret beside a url",
    ],
    [
      "notify: { url: 'https://x', secret: $NOT_SET }\n",
      "1: notify.secret: found $NOT_SET, which is not set, accepted: a text, or a variable that is set in the environment",
    ],
    // The pipeline.
    ["pipeline: {}\n", "1: pipeline.stages: missing, accepted: a list of at least one stage"],
    ["pipeline: { stages: [] }\n", "1: pipeline.stages: found an empty list, accepted: a list of at least one stage"],
    ["pipeline: { stages: {} }\n", "1: pipeline.stages: found a mapping, accepted: a list of at least one stage"],
    [
      `${second("name: b, agent: a, artifact: 02.md")}  max_returns: -1\n`,
      "5: pipeline.max_returns: found -1, accepted: a whole number from 0 to 1000",
    ],
    [
      second("agent: a"),
      `4: pipeline.stages[1].name: missing, accepted: ${NAME}`,
      "4: pipeline.stages[1].artifact: missing, accepted: a file name that ends in .md",
    ],
    [second("name: a/b, agent: a, artifact: 02.md"), `4: pipeline.stages[1].name: found "a/b", accepted: ${NAME}`],
    [second("name: a..b, agent: a, artifact: 02.md"), `4: pipeline.stages[1].name: found "a..b", accepted: ${NAME}`],
    [
      second("name: design, agent: a, artifact: 02.md"),
      '4: pipeline.stages[1].name: found "design", accepted: a name that no earlier stage has',
    ],
    [
      second("name: Design, agent: a, artifact: 02.md"),
      '4: pipeline.stages[1].name: found "Design", accepted: a name that no earlier stage has',
    ],
    [
      second("name: done, agent: a, artifact: 02.md"),
      '4: pipeline.stages[1].name: found "done", accepted: a name other than done and blocked',
    ],
    [
      second("name: blocked, agent: a, artifact: 02.md"),
      '4: pipeline.stages[1].name: found "blocked", accepted: a name other than done and blocked',
    ],
    [second("name: b, agent: 'a b', artifact: 02.md"), `4: pipeline.stages[1].agent: found "a b", accepted: ${NAME}`],
    [
      second("name: b, agent: a, artifact: ../02.md"),
      '4: pipeline.stages[1].artifact: found "../02.md", accepted: a file name that ends in .md',
    ],
    [
      second("name: b, agent: a, artifact: x/02.md"),
      '4: pipeline.stages[1].artifact: found "x/02.md", accepted: a file name that ends in .md',
    ],
    [
      second("name: b, agent: a, artifact: .md"),
      '4: pipeline.stages[1].artifact: found ".md", accepted: a file name that ends in .md',
    ],
    [
      second("name: b, agent: a, artifact: -b.md"),
      '4: pipeline.stages[1].artifact: found "-b.md", accepted: a file name that ends in .md',
    ],
    [
      second("name: b, agent: a, artifact: 02.txt"),
      '4: pipeline.stages[1].artifact: found "02.txt", accepted: a file name that ends in .md',
    ],
    [
      second("name: b, agent: a, artifact: 01.md"),
      '4: pipeline.stages[1].artifact: found "01.md", accepted: a file that no earlier stage writes',
    ],
    [
      second("name: b, agent: a, artifact: 02.md, writes: all"),
      '4: pipeline.stages[1].writes: found "all", accepted: one of docs, code',
    ],
    [
      second("name: b, agent: a, artifact: 02.md, max_attempts: 0"),
      "4: pipeline.stages[1].max_attempts: found 0, accepted: a whole number from 1 to 100",
    ],
    [
      second("name: b, agent: a, artifact: 02.md, approval: no"),
      '4: pipeline.stages[1].approval: found "no", accepted: true or false',
    ],
    [
      second("name: b, agent: a, artifact: 02.md, rerun: never"),
      '4: pipeline.stages[1].rerun: found "never", accepted: true or false',
    ],
    [
      second("name: b, agent: a, artifact: 02.md, retries: 1"),
      "4: pipeline.stages[1].retries: unknown key, accepted: name, agent, artifact, gate, writes, max_attempts, approval, rerun",
    ],
    [
      gate("pass: [YES], fail: [NOPE], on_fail: design"),
      "4: pipeline.stages[1].gate.key: missing, accepted: a key of the frontmatter such as review_status",
    ],
    [
      gate("key: k, pass: [YES], fail: [NOPE]"),
      "4: pipeline.stages[1].gate.on_fail: missing, accepted: the name of an earlier stage, or blocked",
    ],
    [
      gate("key: k, pass: [], fail: [NOPE], on_fail: design"),
      "4: pipeline.stages[1].gate.pass: found an empty list, accepted: a list of words in upper case",
    ],
    [
      gate("key: k, pass: YES, fail: [NOPE], on_fail: design"),
      `4: pipeline.stages[1].gate.pass: found ${HIDDEN}, accepted: a list of words in upper case`,
    ],
    [
      gate("key: k, pass: [YES], fail: [], on_fail: design"),
      "4: pipeline.stages[1].gate.fail: found an empty list, accepted: a list of words in upper case",
    ],
    [
      gate("key: k, pass: [yes], fail: [NOPE], on_fail: design"),
      '4: pipeline.stages[1].gate.pass[0]: found "yes", accepted: a word in upper case such as APPROVED',
    ],
    [
      gate("key: k, pass: [true], fail: [NOPE], on_fail: design"),
      "4: pipeline.stages[1].gate.pass[0]: found true, accepted: a word in upper case such as APPROVED",
    ],
    [
      gate("key: k, pass: ['TRUE'], fail: [NOPE], on_fail: design"),
      '4: pipeline.stages[1].gate.pass[0]: found "TRUE", accepted: a word in upper case such as APPROVED',
    ],
    [
      gate("key: k, pass: [YES, OK], fail: [NOPE, OK], on_fail: design"),
      '4: pipeline.stages[1].gate.fail: found "OK", accepted: values that are not in pass',
    ],
    [
      gate(GATE.replace("key: k", "key: work_item")),
      '4: pipeline.stages[1].gate.key: found "work_item", accepted: a key that does not identify the artifact',
    ],
    [
      gate(GATE.replace("key: k", "key: 'a b'")),
      '4: pipeline.stages[1].gate.key: found "a b", accepted: a key of the frontmatter such as review_status',
    ],
    [
      gate(GATE.replace("on_fail: design", "on_fail: check")),
      '4: pipeline.stages[1].gate.on_fail: found "check", accepted: one of design, blocked',
    ],
    [
      gate(GATE.replace("on_fail: design", "on_fail: later")),
      '4: pipeline.stages[1].gate.on_fail: found "later", accepted: one of design, blocked',
    ],
    [
      gate(GATE.replace("on_fail: design", "on_fail: done")),
      '4: pipeline.stages[1].gate.on_fail: found "done", accepted: one of design, blocked',
    ],
    [gate(`${GATE}, onFail: x`), "4: pipeline.stages[1].gate.onFail: unknown key, accepted: key, pass, fail, on_fail"],
    [
      stagingStage(
        "artifact: 15-staging.md, gate: { key: staging_status, pass: [SUCCESS], fail: [FAILED], on_fail: blocked }",
      ),
      '1: pipeline.stages[0].artifact: found "15-staging.md", accepted: 15-staging-log.md (the staging runner writes it)',
    ],
    [
      stagingStage("artifact: 15-staging-log.md"),
      "1: pipeline.stages[0].gate: found nothing, accepted: key: staging_status, pass: [SUCCESS], fail: [FAILED] (the staging runner writes it)",
    ],
    [
      stagingStage(
        "artifact: 15-staging-log.md, gate: { key: staging_status, pass: [SUCCESS, FAILED], fail: [X], on_fail: blocked }",
      ),
      "1: pipeline.stages[0].gate: found another gate, accepted: key: staging_status, pass: [SUCCESS], fail: [FAILED] (the staging runner writes it)",
    ],
  ])("%j", (yaml, ...faults) => {
    const found = faultsOf(load(yaml));
    expect(found).toEqual(faults.map((fault) => `${path}:${fault}`));
    expect(found.join("")).not.toMatch(/hunter2|1234|\n/);
  });
});

test("all of it at once, in the order of the file, after the environment's", () => {
  const yaml = `
repos:
  shop: { url: ftp://x, push: 1 }
agents:
  bad: { command: [] }
  good: { command: [x], env: { A: $NOT_SET } }
limits: { total: 0 }
pipeline:
  stages:
    - { name: a, agent: a, artifact: 01.md }
    - { name: a, agent: a, artifact: 01.md }
extra: 1
`;
  expect(faultsOf(load(yaml, { ORCH_PORT: "x" })).map((fault) => fault.replace(/: (found|unknown).*/, ""))).toEqual([
    "ORCH_PORT",
    `${path}:3: repos.shop.url`,
    `${path}:3: repos.shop.push`,
    `${path}:5: agents.bad.command`,
    `${path}:6: agents.good.env.A`,
    `${path}:7: limits.total`,
    `${path}:11: pipeline.stages[1].name`,
    `${path}:11: pipeline.stages[1].artifact`,
    `${path}:12: extra`,
  ]);
});

test("a token of the environment that stands in the file by mistake is taken out of the lines", () => {
  const env = { ORCH_API_TOKEN: "correct-horse", ORCH_STAGER_TOKEN: "battery-staple" };
  const yaml = "repos: { shop: { url: x, merge: correct-horse } }\nbattery-staple: 1\n";
  const faults = faultsOf(load(yaml, env));
  expect(faults).toHaveLength(2);
  expect(faults.join()).not.toMatch(/correct-horse|battery-staple/);
});

test("with faulty repositories or a faulty pipeline their names are not guessed at", () => {
  const yaml =
    "repos: { shop: { url: 5 } }\nlimits: { per_repo: { shop: 1 }, per_agent: { anyone: 1 } }\npipeline: {}\n";
  expect(faultsOf(load(yaml))).toEqual([
    `${path}:1: repos.shop.url: found a number, accepted: ${GIT_URL}`,
    `${path}:3: pipeline.stages: missing, accepted: a list of at least one stage`,
  ]);
});

test("a staging stage of an agent's own may have any gate", () => {
  const yaml = stagingStage("artifact: 15.md, gate: { key: k, pass: [A], fail: [B], on_fail: blocked }");
  expect(load(yaml, { ORCH_STAGING_RUNNER_ENABLED: "false" }).kind).toBe("ok");
  expect(load(yaml.replace("agent: deployer", "agent: stager")).kind).toBe("ok");
});

test("a file that is too large is not parsed", () => {
  expect(faultsOf(load(`# x\n${"k: v\n".repeat(20_000)}`))[0]).toMatch(
    /:\d+: found 100004 bytes of YAML, at most 65536 are accepted$/,
  );
});
