/**
 * Works every stage of the sample project as an agent would, without a model: the developer edits the server, the reviewer
 * reads the diff, the tester runs the tests. It knows its task from the ORCH_* variables alone.
 *
 * `--slip` makes the first development deliver a server that passes its tests and fails its staging check.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";

const { ORCH_STAGE, ORCH_AGENT, ORCH_WORK_ITEM_ID, ORCH_BRANCH, ORCH_BASE_BRANCH, ORCH_ARTIFACT } = process.env;
const slips = process.argv.includes("--slip");
const base = `origin/${ORCH_BASE_BRANCH}`;
const say = (line) => process.stdout.write(`${ORCH_AGENT}: ${line}\n`);

/** Runs a program; gives its exit code and all that it printed. */
const run = (command, ...args) => {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8" });
  if (error) throw error;
  return { code: status, output: `${stdout}${stderr}`.trim() };
};

/** The same for git, which has to succeed. The workspace has no identity of its own. */
const git = (...args) => {
  const { code, output } = run("git", "-c", "user.name=Scripted Agent", "-c", "user.email=agent@localhost", ...args);
  if (code !== 0) throw new Error(`git ${args.join(" ")} ended with ${code}: ${output}`);
  return output;
};

/** Replaces the one place in a file that holds `from`; a file without it is not the one that was expected. */
const edit = (path, from, to) => {
  const before = readFileSync(path, "utf8");
  if (before.split(from).length !== 2) throw new Error(`${path}: expected exactly one ${JSON.stringify(from)}`);
  writeFileSync(
    path,
    before.replace(from, () => to),
  );
  say(`edited ${path}`);
};

/** The paths of the server as its source lists them. */
const servedPaths = () =>
  [...readFileSync("server.js", "utf8").matchAll(/^ {2}\["(\/[^"]*)"/gm)].map(([, path]) => path);

const fenced = (output) => `~~~\n${output || "(nothing)"}\n~~~`;

const analysis = () => {
  const paths = servedPaths();
  return {
    body: [
      "# Requirements",
      `The server answers ${paths.join(", ")}. It shall also answer \`GET /greet?name=<name>\`.`,
      '- With a name: 200 and `{"greeting":"Hello, <name>!"}`.',
      "- Without one, the name is `world`.",
      `- What it answers already (${paths.length} paths) stays as it is.`,
    ].join("\n\n"),
  };
};

const architecture = () => ({
  body: [
    "# Architecture",
    "One more entry in the routes of `server.js`; each route is a function of the request's URL. No new file, no dependency.",
    "The checks in `test.js` get one line for each case of the requirements.",
  ].join("\n\n"),
});

const versionRoute = '["/version", (_url, commit) => ({ commit })],';
const slippedRoute = '["/version", () => ({ version: "1.1.0" })],';
const greetRoute = `["/greet", (url) => ({ greeting: \`Hello, \${url.searchParams.get("name") ?? "world"}!\` })],`;

const development = () => {
  const stagingLog = join(dirname(ORCH_ARTIFACT), "15-staging-log.md");
  const failedInStaging = existsSync(stagingLog) && /^staging_status: FAILED$/m.test(readFileSync(stagingLog, "utf8"));
  let message = "Greet by name";
  if (failedInStaging) {
    edit("server.js", slippedRoute, versionRoute);
    message = "Let /version name the commit again, as staging demands";
  } else if (!servedPaths().includes("/greet")) {
    edit("server.js", versionRoute, `${slips ? slippedRoute : versionRoute}\n  ${greetRoute}`);
    const checks = [
      '  { path: "/greet?name=Ada", status: 200, answer: { greeting: "Hello, Ada!" } },',
      '  { path: "/greet", status: 200, answer: { greeting: "Hello, world!" } },',
    ];
    edit("test.js", "\n];\n", `\n${checks.join("\n")}\n];\n`);
  }
  if (git("status", "--porcelain", "--", "server.js", "test.js")) {
    git("commit", "--quiet", "-m", message, "--", "server.js", "test.js");
    say(`committed: ${message}`);
  }
  return {
    body: `# Development log\n\n${message}.\n\n${fenced(git("diff", "--stat", base, "--", "server.js", "test.js"))}`,
  };
};

const review = () => {
  const code = [`${base}...HEAD`, "--", ".", ":!docs/work-items"];
  const changed = git("diff", "--name-only", ...code).split("\n");
  const findings = [
    !changed.includes("server.js") && "the server is unchanged",
    !changed.includes("test.js") && "the change comes without a test",
    run("git", "diff", "--check", ...code).code !== 0 && "the diff leaves blanks at line ends or conflict marks",
  ].filter(Boolean);
  say(`read the changes of ${changed.join(", ")}: ${findings.join(", ") || "nothing to object to"}`);
  return {
    gate: { review_status: findings.length === 0 ? "APPROVED" : "CHANGES_REQUESTED" },
    body: `# Review\n\nChanged: ${changed.join(", ")}\n\nFindings: ${findings.join("; ") || "none"}.`,
  };
};

const testing = () => {
  const runtime = "deno" in process.versions ? [process.execPath, "run", "-A"] : [process.execPath];
  const { code, output } = run(...runtime, "test.js");
  say(`the tests ended with ${code}\n${output}`);
  return {
    gate: { test_status: code === 0 ? "PASSED" : "FAILED" },
    body: `# Test report\n\nThe project's tests ended with exit code ${code}.\n\n${fenced(output)}`,
  };
};

const deploy = () => {
  const going = git("log", "--oneline", `${base}..HEAD`);
  return {
    gate: { deploy_status: "SUCCESS" },
    body: `# Deploy log\n\nThe sample has nowhere to go: what a deployment of ${ORCH_BRANCH} would bring is\n\n${fenced(going)}`,
  };
};

const roles = { analysis, architecture, development, review, testing, deploy };

const prompt = await text(process.stdin);
say(`stage ${ORCH_STAGE} of ${ORCH_WORK_ITEM_ID}, a prompt of ${prompt.length} characters`);
const work = roles[ORCH_STAGE];
if (!work) throw new Error(`ORCH_STAGE is ${ORCH_STAGE}; this agent works ${Object.keys(roles).join(", ")}`);
const { gate = {}, body } = work();

const frontmatter = {
  work_item: ORCH_WORK_ITEM_ID,
  stage: ORCH_STAGE,
  author_agent: ORCH_AGENT,
  status: "completed",
  created_at: new Date().toISOString().slice(0, 10),
  model_used: "none",
  ...gate,
};
const lines = Object.entries(frontmatter).map(([key, value]) => `${key}: ${value}`);
mkdirSync(dirname(ORCH_ARTIFACT), { recursive: true });
writeFileSync(ORCH_ARTIFACT, `---\n${lines.join("\n")}\n---\n\n${body}\n`);
say(`wrote ${ORCH_ARTIFACT}`);
