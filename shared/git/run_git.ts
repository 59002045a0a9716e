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
}

/**
 * Runs git without a shell, in a process group of its own, with an environment and settings that no repository can bend.
 * All three throw a `ToolError` where git cannot be started or writes more than it may.
 */
export interface Git {
  /** Never throws for a non-zero exit, a timeout or an abort: the result says so. */
  run(args: readonly string[], options: GitOptions): Promise<GitResult>;
  /** Standard output as text; throws a `ToolError` on a failure, and the signal's reason on an abort. */
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

export const createGit = (surroundings: GitSurroundings): Git => {
  const run = async (args: readonly string[], o: GitOptions): Promise<GitResult> => {
    if (o.signal?.aborted) {
      return { code: null, stdout: Buffer.alloc(0), stderr: "", timedOut: false, aborted: true };
    }
    const env = { ...gitEnvironment(surroundings, o.network ?? false), ...repositoryEnvironment(o), ...o.env };
    const stdin = o.inputFile === undefined ? null : await open(o.inputFile, "r");
    const stdout = o.outputFile === undefined ? null : await open(o.outputFile, "wx", 0o600);
    let ended: Ended;
    try {
      ended = await supervise("git", [...settingsArguments, ...args], {
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
      throw new ToolError(o.errorCode ?? "git", `git ${commandOf(args)} wrote more than the ${limit} bytes it may`);
    }
    const { code, timedOut, aborted } = ended;
    return { code, stdout: ended.stdout, stderr: redact(ended.stderr), timedOut, aborted };
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
 * class `no_space` or `options.errorCode`.
 */
export const gitFailure = (args: readonly string[], options: GitOptions, result: GitResult): unknown => {
  if (result.aborted && options.signal !== undefined) return options.signal.reason;
  const command = commandOf(args);
  if (NO_SPACE.test(result.stderr) || isFull(options.gitDir)) {
    return new ToolError("no_space", `git ${command}: the disk is full: ${shortened(result.stderr)}`);
  }
  const how = result.timedOut
    ? `did not end within ${(options.timeoutMs ?? TIMEOUT_MS) / 1000} s`
    : result.code === null
      ? "was ended by a signal"
      : `failed with exit code ${result.code}`;
  const said = shortened(result.stderr);
  return new ToolError(options.errorCode ?? "git", `git ${command} ${how}${said === "" ? "" : `: ${said}`}`);
};

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
