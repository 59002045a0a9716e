import { open } from "node:fs/promises";
import { resolve } from "node:path";
import { findExecutable } from "@orchestrator/shared/process/find_executable.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";

/** A single argument of a process may not be longer, its final NUL included (Linux: 32 pages). */
const MAX_ARGUMENT_BYTES = 128 * 1024;
/** Leaves room for what stands around the prompt in its argument. */
export const MAX_PROMPT_ARGUMENT_BYTES = 100 * 1024;

const PLACEHOLDER = "{prompt}";

/** Whether the prompt goes into an argument instead of standard input. */
export const takesPromptAsArgument = (argv: readonly string[]): boolean =>
  argv.some((arg) => arg.includes(PLACEHOLDER));

/**
 * The arguments with the prompt in place of each `{prompt}`.
 * @throws {ToolError} `prompt_too_large` above 100 KiB.
 */
export const withPrompt = (argv: readonly string[], prompt: string): string[] => {
  if (!takesPromptAsArgument(argv)) return [...argv];
  const bytes = Buffer.byteLength(prompt);
  const filled = argv.map((arg) => arg.replaceAll(PLACEHOLDER, () => prompt));
  const longest = Math.max(...filled.map((arg) => Buffer.byteLength(arg)));
  if (bytes > MAX_PROMPT_ARGUMENT_BYTES || longest >= MAX_ARGUMENT_BYTES) {
    throw new ToolError(
      "prompt_too_large",
      `the prompt has ${bytes} bytes, and an argument takes at most ${MAX_PROMPT_ARGUMENT_BYTES}: ` +
        `leave ${PLACEHOLDER} out of the agent's command, so that the prompt goes to its standard input, or shorten the description`,
    );
  }
  return filled;
};

/**
 * The file of an agent's or notification's command (see `findExecutable`), whose interpreter is there too.
 * @param path the PATH of the process to be started.
 * @throws {ToolError} `command_not_found` or `command_not_executable`.
 */
export const findCommand = async (command: string, cwd: string, path: string | undefined): Promise<string> => {
  const found = await findExecutable(command, cwd, path);
  switch (found.kind) {
    case "found":
      await checkInterpreter(found.file, cwd);
      return found.file;
    case "not_executable":
      throw new ToolError(
        "command_not_executable",
        `${found.file} is not an executable file: make it one (chmod +x), or correct the command in the configuration`,
      );
    case "not_found": {
      const where = command.includes("/") ? `at ${resolve(cwd, command)}` : `in PATH (${path ?? "not set"})`;
      throw new ToolError(
        "command_not_found",
        `the command '${command}' was not found ${where}: install it, or correct the command in the configuration`,
      );
    }
  }
};

/** The kernel reads no more of a script's first line (BINPRM_BUF_SIZE). */
const FIRST_LINE_BYTES = 256;

/** A script names the program that reads it, without which the script is no command. */
const checkInterpreter = async (file: string, cwd: string): Promise<void> => {
  const interpreter = /^#![ \t]*([^ \t\n]+)/.exec(await firstBytes(file))?.[1];
  if (interpreter === undefined || (await findExecutable(resolve(cwd, interpreter), cwd, undefined)).kind === "found")
    return;
  throw new ToolError(
    "command_not_executable",
    `${file} could not be started: the interpreter that its first line names, ${interpreter}, is missing or not executable`,
  );
};

/** Empty where the file may be run but not read. */
const firstBytes = async (path: string): Promise<string> => {
  const file = await open(path, "r").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "EACCES" || error.code === "ETXTBSY") return null;
    throw error;
  });
  if (file === null) return "";
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(FIRST_LINE_BYTES), 0, FIRST_LINE_BYTES, 0);
    return buffer.toString("latin1", 0, bytesRead);
  } finally {
    await file.close();
  }
};
