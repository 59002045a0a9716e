import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { FAULT_POINTS, parseFaultPoint } from "@orchestrator/shared/fault_points.ts";
import { describe, expect, test } from "vitest";
import { projectRoot, runtimeArgv } from "../helpers/runtime.ts";

const reachedIn = (service: string): string[] => {
  const folder = join(projectRoot, "services", service);
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const calls = files.flatMap((file) => [
    ...readFileSync(join(folder, file), "utf8").matchAll(/\.reach\(\s*"([^"]+)"/g),
  ]);
  return calls.map(([, name]) => name!).sort();
};

test.each(["scheduler", "stager"] as const)("the list of the %s's points is what its code reaches", (service) => {
  expect([...FAULT_POINTS[service]].sort()).toEqual(reachedIn(service));
});

test.each<[string, ReturnType<typeof parseFaultPoint>]>([
  ["push.after", { name: "push.after", nth: 1 }],
  ["push.after:3", { name: "push.after", nth: 3 }],
  ["step.before:1", { name: "step.before", nth: 1 }],
  ["push.afterwards", null],
  ["push.after:0", null],
  ["push.after:", null],
  ["push.after:1 ", null],
  ["push.after:-1", null],
  ["", null],
])("%j is read as %j", (text, expected) => {
  expect(parseFaultPoint(text)).toEqual(expected);
});

describe("a process", () => {
  const reach = async (fault: string, ...names: string[]) => {
    const [program, ...args] = runtimeArgv("test/shared/fixtures/reach_points.ts");
    const child = spawn(program, [...args, fault, ...names], {
      cwd: projectRoot,
      stdio: ["ignore", "pipe", "inherit"],
    });
    let stdout = "";
    child.stdout.on("data", (text: Buffer) => {
      stdout += text;
    });
    const [code, signal] = await once(child, "close");
    return { code, signal, passed: stdout.split("\n").slice(0, -1) };
  };
  const names = ["push.before", "push.after", "push.before", "push.after", "push.after"];

  test("dies of SIGKILL at the point and time that are named", async () => {
    expect(await reach("push.after:2", ...names)).toEqual({
      code: null,
      signal: "SIGKILL",
      passed: ["push.before", "push.after", "push.before"],
    });
  });

  test.each(["push.after:4", "none"])("passes by all where %j is not among them", async (fault) => {
    expect(await reach(fault, ...names)).toEqual({ code: 0, signal: null, passed: names });
  });
});
