import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { createLog, type Log } from "@orchestrator/shared/log.ts";
import { createTextRedactor } from "@orchestrator/shared/redact.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { describe, expect, test } from "vitest";

const TOKEN = 'tok"en-ä-7f3a\\9';

const capture = (level: "debug" | "info" | "silent" = "debug", secrets = [TOKEN]) => {
  const lines: string[] = [];
  const log = createLog({ level, service: "scheduler", secrets, destination: { write: (line) => lines.push(line) } });
  return { log, lines, last: () => JSON.parse(lines.at(-1)!) as Record<string, unknown> };
};

describe("a line", () => {
  test("is one JSON object with the level as a word and the time in ISO 8601", () => {
    const { log, lines, last } = capture();
    log.info({ jobId: 7 }, "claimed");
    expect(lines).toHaveLength(1);
    expect(lines[0]!.endsWith("}\n")).toBe(true);
    expect(last()).toEqual({
      level: "info",
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      service: "scheduler",
      pid: process.pid,
      job_id: 7,
      msg: "claimed",
    });
  });

  test("has snake_case field names, also from child loggers; what stands inside a value is left alone", () => {
    const { log, last } = capture();
    log.child({ runId: 9, workItemId: "A-1" }).info({ tookMs: 3, already_snake: 1, counts: { myAgent: 2 } }, "x");
    expect(last()).toMatchObject({
      run_id: 9,
      work_item_id: "A-1",
      took_ms: 3,
      already_snake: 1,
      counts: { myAgent: 2 },
    });
  });

  test("holds an error with its class, stack and cause", () => {
    const { log, last } = capture();
    log.error({ err: new ToolError("git_push", "push refused", { cause: new Error("remote hung up") }) }, "failed");
    const err = last()["err"] as Record<string, string>;
    expect(err).toMatchObject({ code: "git_push", message: "push refused: remote hung up" });
    expect(err["stack"]).toContain("log.test.ts");
  });

  test("is not written below the level", () => {
    const { log, lines } = capture("info");
    log.debug("no");
    log.info("yes");
    expect(lines).toHaveLength(1);
    const silent = capture("silent");
    silent.log.fatal("no");
    expect(silent.lines).toEqual([]);
  });

  test("goes to standard output before the call returns", () => {
    const program = fileURLToPath(new URL("fixtures/log_and_exit.ts", import.meta.url));
    const runtime = "Deno" in globalThis ? ["run", "-A"] : ["--import", "tsx"];
    const { stdout, status } = spawnSync(process.execPath, [...runtime, program], { encoding: "utf8" });
    expect(status).toBe(5);
    const lines = stdout.trimEnd().split("\n");
    expect(lines).toHaveLength(1_000);
    expect(JSON.parse(lines[999]!)).toMatchObject({ service: "stager", n: 999 });
  });
});

describe("secrets", () => {
  const places: [where: string, write: (log: Log) => void][] = [
    ["in the message", (log) => log.info(`refused ${TOKEN}!`)],
    ["in an interpolated message", (log) => log.info("refused %s and %j", TOKEN, { t: TOKEN })],
    ["in a field", (log) => log.info({ given: TOKEN }, "x")],
    ["deep in a field", (log) => log.info({ a: [{ b: { c: `x${TOKEN}y` } }] }, "x")],
    ["as a key", (log) => log.info({ seen: { [TOKEN]: 1 } }, "x")],
    ["in a child's fields", (log) => log.child({ header: TOKEN }).info("x")],
    ["in an error's message and stack", (log) => log.error({ err: new Error(`bad ${TOKEN}`) }, "x")],
    ["in an error that is the whole line", (log) => log.error(new Error(`bad ${TOKEN}`))],
    ["in an error's cause", (log) => log.error({ err: new Error("x", { cause: new Error(TOKEN) }) }, "x")],
    ["in an error's own fields", (log) => log.error({ err: Object.assign(new Error("x"), { got: TOKEN }) }, "x")],
    ["percent-encoded in a URL", (log) => log.info(`GET /x?t=${encodeURIComponent(TOKEN)}`)],
  ];

  test.each(places)("are replaced %s", (_, write) => {
    const { log, lines, last } = capture();
    write(log);
    expect(lines).toHaveLength(1);
    expect(last()).toMatchObject({ level: expect.any(String) });
    expect(lines[0]).toContain("[redacted]");
    for (const form of [TOKEN, JSON.stringify(TOKEN).slice(1, -1), encodeURIComponent(TOKEN), "7f3a"]) {
      expect(lines[0]).not.toContain(form);
    }
  });

  test("made of digits alone are replaced where they were logged as a number, and the line stays JSON", () => {
    const { log, last } = capture("info", ["80801"]);
    log.info({ a: 80801, b: 8080, c: "pid 80801" }, "x");
    expect(last()).toMatchObject({ a: "[redacted]", b: 8080, c: "pid [redacted]" });
  });

  test.each([
    ["authorization", "x"],
    ["Authorization", "Bearer short"],
    ["cookie", "a=b"],
    ["set-cookie", "a=b"],
    ["api_key", "x"],
    ["OPENAI_API_KEY", "x"],
    ["apiToken", "x"],
    ["password", 1234],
    ["client_secret", { deep: "x" }],
  ])("are known by the name of the field: %s", (name, value) => {
    const { log, last } = capture();
    log.info({ request: { [name]: value } }, "x");
    expect(last()["request"]).toEqual({ [name]: "[redacted]" });
  });

  test("that hold one another leave nothing of the longer one behind", () => {
    expect(createTextRedactor(["abcd", "abcd-efgh"])("see abcd-efgh and abcd")).toBe("see [redacted] and [redacted]");
  });

  test("that are empty are none", () => {
    expect(createTextRedactor([""])("text")).toBe("text");
  });
});

test.each([
  ["Authorization: Bearer abcdefghijklmnop.qrst", "Authorization: Bearer [redacted]"],
  ["got basic dXNlcjpwYXNzd29yZA==, refused", "got basic [redacted], refused"],
  ["a bearer token is needed", "a bearer token is needed"],
  ["fetch https://user:pw@host.example/x.git failed", "fetch https://[redacted]@host.example/x.git failed"],
  ["fetch https://ghp_abc@host.example/x.git failed", "fetch https://[redacted]@host.example/x.git failed"],
  ["push ssh://git@host.example/x.git failed", "push ssh://git@host.example/x.git failed"],
  ["open libsql://u:p@db.example:80", "open libsql://[redacted]@db.example:80"],
  ["mail name@host.example at http://host/a@b", "mail name@host.example at http://host/a@b"],
  ["see http://a.example and b@c.example", "see http://a.example and b@c.example"],
])("credentials are known by their form: %s", (text, expected) => {
  expect(createTextRedactor([])(text)).toBe(expected);
});
