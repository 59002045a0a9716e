import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import {
  findCommand,
  MAX_PROMPT_ARGUMENT_BYTES,
  takesPromptAsArgument,
  withPrompt,
} from "../../services/scheduler/command.ts";
import { tempFolder } from "../shared/process/real.ts";

describe("withPrompt", () => {
  test.each([
    [["-p"], ["-p"]],
    [
      ["exec", "{prompt}"],
      ["exec", "P $& $1"],
    ],
    [
      ["--a={prompt}", "{prompt}{prompt}"],
      ["--a=P $& $1", "P $& $1P $& $1"],
    ],
    [
      ["{Prompt}", "{ prompt }"],
      ["{Prompt}", "{ prompt }"],
    ],
  ])("%j becomes %j", (argv, expected) => {
    expect(withPrompt(argv, "P $& $1")).toEqual(expected);
    expect(takesPromptAsArgument(argv)).toBe(argv.join(" ") !== expected.join(" "));
  });

  const euros = (bytes: number): string => "€".repeat(Math.floor(bytes / 3)) + "x".repeat(bytes % 3);

  test("takes a prompt of 100 KiB, in bytes, and refuses one byte more", () => {
    expect(withPrompt(["{prompt}"], euros(MAX_PROMPT_ARGUMENT_BYTES))).toHaveLength(1);
    expect(() => withPrompt(["{prompt}"], euros(MAX_PROMPT_ARGUMENT_BYTES + 1))).toThrow(
      expect.objectContaining({ code: "prompt_too_large", message: expect.stringContaining("102401 bytes") }),
    );
  });

  test("refuses an argument that two prompts make too long", () => {
    expect(() => withPrompt(["{prompt}{prompt}"], euros(70 * 1024))).toThrow(
      expect.objectContaining({ code: "prompt_too_large" }),
    );
  });

  test("has no limit where no argument takes the prompt", () => {
    expect(withPrompt(["-p"], "x".repeat(5_000_000))).toEqual(["-p"]);
  });
});

describe("findCommand", () => {
  let folder: string;
  beforeEach(() => {
    folder = tempFolder();
    for (const name of ["a", "b", "work"]) mkdirSync(join(folder, name));
    const write = (path: string, mode: number): void => {
      writeFileSync(join(folder, path), "#!/bin/sh\n");
      chmodSync(join(folder, path), mode);
    };
    write("a/plain", 0o644);
    write("b/plain", 0o755);
    write("b/tool", 0o755);
    write("a/only-plain", 0o644);
    write("work/agent.sh", 0o755);
    mkdirSync(join(folder, "a/tool"));
    mkdirSync(join(folder, "a/directory"));
    symlinkSync(join(folder, "b/tool"), join(folder, "a/link"));
    symlinkSync(join(folder, "nowhere"), join(folder, "a/dangling"));
    symlinkSync("circle", join(folder, "a/circle"));
  });
  const find = (command: string, path?: string): Promise<string> =>
    findCommand(command.replace("FOLDER", folder), join(folder, "work"), path ?? `${folder}/a:${folder}/b`);

  test.each([
    ["tool", "b/tool"],
    ["plain", "b/plain"],
    ["link", "a/link"],
    ["./agent.sh", "work/agent.sh"],
    ["../b/tool", "b/tool"],
    ["FOLDER/b/tool", "b/tool"],
  ])("%s is %s", async (command, expected) => {
    expect(await find(command)).toBe(join(folder, expected));
  });

  test("an empty or relative part of PATH is the working directory's", async () => {
    expect(await find("agent.sh", ":/nowhere")).toBe(join(folder, "work/agent.sh"));
    expect(await find("tool", "../b")).toBe(join(folder, "b/tool"));
  });

  test("without PATH the usual directories are searched", async () => {
    expect(await findCommand("sh", folder, undefined)).toMatch(/\/sh$/);
  });

  test.each([["absent"], ["agent.sh"], ["dangling"], ["./absent"], ["FOLDER/absent"], ["FOLDER/b/tool/below"]])(
    "%s is not found",
    async (command) => {
      await expect(find(command)).rejects.toMatchObject({ name: "ToolError", code: "command_not_found" });
    },
  );

  test.each([["only-plain"], ["directory"], ["circle"], ["FOLDER/a/plain"], ["FOLDER/a/directory"], [""]])(
    "%s is not executable",
    async (command) => {
      await expect(find(command)).rejects.toMatchObject({ name: "ToolError", code: "command_not_executable" });
    },
  );
});
