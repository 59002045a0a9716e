import { statfsSync } from "node:fs";
import { open } from "node:fs/promises";
import { createTextRedactor } from "../redact.ts";
import { ToolError } from "../tool_error.ts";
import { type GitSurroundings, gitEnvironment, settingsArguments } from "./git_environment.ts";
import { type Ended, supervise } from "./supervise.ts";

export interface GitOptions {
  /** Absolute. Without it git sees no repository at all. */
  gitDir?: string;
  workTree?: string;
  indexFile?: string;
  /**
   * Default: the git directory, or with a work tree `/`, from where git means all of it. Never let it be a workspace:
   * processes that stand there count as the agent's.
   */
  cwd?: string;
  input?: string | Uint8Array;
  /** Read as standard input instead of `input`; for what may be large. */
  inputFile?: string;
  /** Standard output is written there (created anew); `stdout` is then empty. */
  outputFile?: string;
  /** Default 120 s. */
  timeoutMs?: number;
  signal?: AbortSignal | undefined;
  /** The command talks to a remote. */
  network?: boolean;
  /** The class of the `ToolError` that `ok` and `bytes` throw; default `git`. */
  errorCode?: string;
  env?: Readonly<Record<string, string>>;
  /** More output than this ends the command with an error; default 64 MiB. */
  maxOutputBytes?: number;
}

export interface GitResult {
  /** Null where a signal ended it. */
  code: number | null;
  stdout: Buffer;
  /** The end of it, without credentials. */
  stderr: string;
  timedOut: boolean;
  aborted: boolean;
  /** Pids of what it left running, since it cannot be ended; none, as a rule. */
  survivors: readonly number[];
}

/**
 * Runs git without a shell, in a process group of its own, with an environment and settings that no repository can bend.
 * All three throw a `ToolError` where git cannot be started or writes more than it may.
 */
export interface Git {
  /** Never throws for a non-zero exit, a timeout or an abort: the result says so. */
  run(args: readonly string[], options: GitOptions): Promise<GitResult>;
  /**
   * Standard output as text; throws a `ToolError` on a failure, and the signal's reason on an abort (with something left that
   * cannot be ended it is the cause of a `ToolError` that says so).
   */
  ok(args: readonly string[], options: GitOptions): Promise<string>;
  /** The same as bytes, for names and contents that need not be UTF-8. */
  bytes(args: readonly string[], options: GitOptions): Promise<Buffer>;
}

const TIMEOUT_MS = 120_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
const MAX_MESSAGE_CHARS = 2000;

/** What git says when the disk is full, in the C locale. */
const NO_SPACE = /no space left on device|disk quota exceeded/i;

/** With less room than this, in bytes, a failure is the disk's: git does not always say why it could not write. */
const FULL_BYTES = 64 * 1024;

const redact = createTextRedactor([]);

/** @param runProgram runs a program under its limits; by default as `supervise` does. */
export const createGit = (surroundings: GitSurroundings, runProgram: typeof supervise = supervise): Git => {
  const run = async (args: readonly string[], o: GitOptions): Promise<GitResult> => {
    if (o.signal?.aborted) {
      return { code: null, stdout: Buffer.alloc(0), stderr: "", timedOut: false, aborted: true, survivors: [] };
    }
    const env = { ...gitEnvironment(surroundings, o.network ?? false), ...repositoryEnvironment(o), ...o.env };
    const stdin = o.inputFile === undefined ? null : await open(o.inputFile, "r");
    const stdout = o.outputFile === undefined ? null : await open(o.outputFile, "wx", 0o600);
    let ended: Ended;
    try {
      ended = await runProgram("git", [...settingsArguments, ...args], {
        env,
        cwd: o.cwd ?? (o.workTree === undefined ? o.gitDir : undefined) ?? "/",
        stdio: [stdin?.fd ?? (o.input === undefined ? "ignore" : "pipe"), stdout?.fd ?? "pipe", "pipe"],
        input: o.input,
        timeoutMs: o.timeoutMs ?? TIMEOUT_MS,
        signal: o.signal,
        maxOutputBytes: o.maxOutputBytes ?? MAX_OUTPUT_BYTES,
      });
    } finally {
      await stdin?.close();
      await stdout?.close();
    }
    if (ended.overflowed) {
      const limit = o.maxOutputBytes ?? MAX_OUTPUT_BYTES;
      const found = `git ${commandOf(args)} wrote more than the ${limit} bytes it may`;
      throw new ToolError(o.errorCode ?? "git", `${found}${aboutSurvivors(ended.survivors)}`);
    }
    const { code, timedOut, aborted, survivors } = ended;
    return { code, stdout: ended.stdout, stderr: redact(ended.stderr), timedOut, aborted, survivors };
  };

  const bytes = async (args: readonly string[], o: GitOptions): Promise<Buffer> => {
    const result = await run(args, o);
    if (result.code !== 0 || result.aborted || result.timedOut) throw gitFailure(args, o, result);
    return result.stdout;
  };

  return { run, bytes, ok: async (args, o) => (await bytes(args, o)).toString("utf8") };
};

/**
 * What to throw for a command that did not succeed: the signal's own reason where it was aborted, else a `ToolError` of
 * class `no_space` or `options.errorCode`. What cannot be ended has a person to look after it: a `ToolError` in any case.
 */
export const gitFailure = (args: readonly string[], options: GitOptions, result: GitResult): unknown => {
  const command = commandOf(args);
  if (result.survivors.length > 0) {
    // The disk is not asked: it may be what the command waits for, and would be waited for here as well.
    const how = result.aborted ? "was told to end" : didNotEnd(options);
    const because = result.aborted ? { cause: options.signal?.reason } : {};
    return new ToolError(
      options.errorCode ?? "git",
      `git ${command} ${how}${aboutSurvivors(result.survivors)}`,
      because,
    );
  }
  if (result.aborted && options.signal !== undefined) return options.signal.reason;
  if (NO_SPACE.test(result.stderr) || isFull(options.gitDir)) {
    return new ToolError("no_space", `git ${command}: the disk is full: ${shortened(result.stderr)}`);
  }
  const how = result.timedOut
    ? didNotEnd(options)
    : result.code === null
      ? "was ended by a signal"
      : `failed with exit code ${result.code}`;
  const said = shortened(result.stderr);
  return new ToolError(options.errorCode ?? "git", `git ${command} ${how}${said === "" ? "" : `: ${said}`}`);
};

const didNotEnd = ({ timeoutMs = TIMEOUT_MS }: GitOptions): string => `did not end within ${timeoutMs / 1000} s`;

const aboutSurvivors = (pids: readonly number[]): string =>
  pids.length === 0
    ? ""
    : `, and cannot be ended (pid ${pids.join(", ")}): it waits in the kernel, as a rule for a disk or a network file system ` +
      "that does not answer. Bring that back, or restart the machine";

const isFull = (gitDir: string | undefined): boolean => {
  if (gitDir === undefined) return false;
  try {
    const { bavail, bsize } = statfsSync(gitDir);
    return bavail * bsize < FULL_BYTES;
  } catch {
    // A directory that is not there says nothing about a disk; what git said about it stands.
    return false;
  }
};

/** The command among the arguments, behind any `-c <setting>`. */
const commandOf = (args: readonly string[]): string =>
  args.find((arg, index) => !arg.startsWith("-") && args[index - 1] !== "-c") ?? "";

const shortened = (stderr: string): string => {
  const text = stderr.trim();
  return text.length <= MAX_MESSAGE_CHARS ? text : `… ${text.slice(-MAX_MESSAGE_CHARS)}`;
};

/** Which repository: said by environment, which git trusts and which no directory it stands in can change. */
const repositoryEnvironment = ({ gitDir, workTree, indexFile }: GitOptions): Record<string, string> => ({
  GIT_DIR: gitDir ?? "/dev/null/no-repository",
  ...(workTree === undefined ? {} : { GIT_WORK_TREE: workTree }),
  ...(indexFile === undefined ? {} : { GIT_INDEX_FILE: indexFile }),
});
