import { execFile } from "node:child_process";
import { promisify } from "node:util";

const IDENTITY = {
  GIT_AUTHOR_NAME: "Ann Author",
  GIT_AUTHOR_EMAIL: "ann@example.com",
  GIT_COMMITTER_NAME: "Ann Author",
  GIT_COMMITTER_EMAIL: "ann@example.com",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
};

/** Runs git as a person would, and returns what it printed. */
export const git = async (cwd: string, ...args: string[]): Promise<string> => {
  const { stdout } = await promisify(execFile)("git", args, { cwd, env: { PATH: process.env.PATH, ...IDENTITY } });
  return stdout.trim();
};
