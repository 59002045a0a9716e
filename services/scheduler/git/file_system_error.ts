import { isDiskFull } from "@orchestrator/shared/disk_space.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";

/** Codes of the operating system, such as `EROFS`; the runtime's own begin with `ERR_`. */
const SYSTEM_CODE = /^E[A-Z0-9]+$/;

const ADVICE: readonly [codes: readonly string[], advice: string][] = [
  [["EROFS"], "mount the file system writable again"],
  [["EACCES", "EPERM"], "let the scheduler's user read and write there"],
  [["EMFILE", "ENFILE"], "too many files are open: raise the limit of the service (ulimit -n) or of the machine"],
  [["ENOTDIR", "EISDIR", "EEXIST", "ENOTEMPTY", "ELOOP"], "something else stands there than is expected: move it away"],
  [["ENOENT"], "something else has removed it: see that only the scheduler changes its folders"],
];
const OTHER_ADVICE = "look at the disk or mount that holds it";

/**
 * The `ToolError` that an error of the operating system is: of class `no_space` where the disk is full, else of class
 * `file_system`. Its message says which path, which error and what to do. Null for an error of another kind.
 * @param doing what was being done.
 */
export const fileSystemError = (error: unknown, doing: string): ToolError | null => {
  if (!(error instanceof Error)) return null;
  const { code, path } = error as NodeJS.ErrnoException;
  if (code === undefined || !SYSTEM_CODE.test(code)) return null;
  const options = { cause: error };
  if (isDiskFull(code)) return new ToolError("no_space", `${doing}: the disk is full: ${error.message}`, options);
  // The runtimes word it differently, and leave the path out where an open file failed.
  const said = error.message.includes(code) ? error.message : `${code}: ${error.message}`;
  const where = path === undefined || said.includes(path) ? "" : ` (${path})`;
  return new ToolError("file_system", `${doing}: ${said}${where}; ${adviceOn(code)}`, options);
};

const adviceOn = (code: string): string => ADVICE.find(([codes]) => codes.includes(code))?.[1] ?? OTHER_ADVICE;
