import { constants } from "node:fs";
import { access, open, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join, resolve } from "node:path";
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

type Finding = "executable" | "not_executable" | "missing";

const look = async (path: string): Promise<Finding> => {
  try {
    if (!(await stat(path)).isFile()) return "not_executable";
    await access(path, constants.X_OK);
    return "executable";
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT" || code === "ENOTDIR") return "missing";
    if (code === "EACCES" || code === "EPERM" || code === "ELOOP") return "not_executable";
    throw error;
  }
};

/**
 * The file that a command names, as `execvp` in that directory with that PATH would find it. It is looked up here and not left
 * to the runtimes, so that both start the same file and say the same about one that is not there.
 * @param path the PATH of the process to be started.
 * @throws {ToolError} `command_not_found` or `command_not_executable`.
 */
export const findCommand = async (command: string, cwd: string, path: string | undefined): Promise<string> => {
  const isPath = command.includes("/");
  const folders = isPath ? [] : (path ?? "/usr/local/bin:/usr/bin:/bin").split(delimiter);
  const candidates = isPath
    ? [isAbsolute(command) ? command : resolve(cwd, command)]
    : folders.map((folder) => join(resolve(cwd, folder), command));
  let blocked: string | null = null;
  for (const candidate of candidates) {
    const finding = await look(candidate);
    if (finding === "executable") {
      await checkInterpreter(candidate, cwd);
      return candidate;
    }
    if (finding === "not_executable") blocked ??= candidate;
  }
  if (blocked !== null) {
    throw new ToolError(
      "command_not_executable",
      `${blocked} is not an executable file: make it one (chmod +x), or correct the command in the configuration`,
    );
  }
  throw new ToolError(
    "command_not_found",
    `the command '${command}' was not found ${isPath ? `at ${candidates[0]}` : `in PATH (${path ?? "not set"})`}: install it, or correct the command in the configuration`,
  );
};

/** The kernel reads no more of a script's first line (BINPRM_BUF_SIZE). */
const FIRST_LINE_BYTES = 256;

/** A script names the program that reads it, without which the script is no command. */
const checkInterpreter = async (file: string, cwd: string): Promise<void> => {
  const interpreter = /^#![ \t]*([^ \t\n]+)/.exec(await firstBytes(file))?.[1];
  if (interpreter === undefined || (await look(resolve(cwd, interpreter))) === "executable") return;
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
