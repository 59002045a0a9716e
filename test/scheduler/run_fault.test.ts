import { lstat, mkdir, open, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { LibsqlError } from "@libsql/client";
import { StorageBusyError } from "@orchestrator/shared/storage/connection.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { describe, expect, test } from "vitest";
import { fileSystemError } from "../../services/scheduler/git/file_system_error.ts";
import { faultOf } from "../../services/scheduler/run_fault.ts";
import { tempFolder } from "../helpers/temp_folder.ts";

const systemError = (code: string, more: object = {}) =>
  Object.assign(new Error(`${code}: as the system calls it, open '/a/b'`), { code, ...more });

describe("fileSystemError says which path, which error and what to do", () => {
  test.each([
    ["ENOSPC", "no_space", "the disk is full"],
    ["EDQUOT", "no_space", "the disk is full"],
    ["EROFS", "file_system", "mount the file system writable"],
    ["EACCES", "file_system", "let the scheduler's user"],
    ["EPERM", "file_system", "let the scheduler's user"],
    ["EMFILE", "file_system", "raise the limit"],
    ["ENFILE", "file_system", "raise the limit"],
    ["ENOTDIR", "file_system", "move it away"],
    ["EIO", "file_system", "look at the disk"],
    ["ESTALE", "file_system", "look at the disk"],
  ])("%s", (code, kind, advice) => {
    const error = systemError(code);
    const fault = fileSystemError(error, "preparing the workspace");
    expect(fault).toMatchObject({ code: kind, cause: error });
    for (const said of ["preparing the workspace: ", `${code}: `, "'/a/b'", advice]) {
      expect(fault?.message).toContain(said);
    }
  });

  test("the error's code and path are said where its message says neither", () => {
    const error = Object.assign(new Error("Read-only file system (os error 30)"), { code: "EROFS", path: "/a/b" });
    expect(fileSystemError(error, "collecting the work")?.message).toBe(
      "collecting the work: EROFS: Read-only file system (os error 30) (/a/b); mount the file system writable again",
    );
  });

  test("errors as this runtime throws them", async () => {
    const folder = await tempFolder();
    const file = join(folder, "file");
    const loop = join(folder, "loop");
    await writeFile(file, "");
    await symlink(loop, loop);
    const failures: [string, () => Promise<unknown>][] = [
      ["ENOTDIR", () => lstat(join(file, "below"))],
      ["EEXIST", () => mkdir(file)],
      ["ENOENT", () => open(join(folder, "none"), "r")],
      ["ELOOP", () => open(join(loop, "below"), "r")],
      ["EISDIR", () => writeFile(folder, "")],
      ["ENAMETOOLONG", () => writeFile(join(folder, "x".repeat(300)), "")],
      ["ENOENT", () => rm(join(folder, "none"))],
    ];
    for (const [code, fail] of failures) {
      const fault = fileSystemError(await fail().catch((error: unknown) => error), "trying");
      expect(fault, code).toMatchObject({ code: "file_system", message: expect.stringContaining(`trying: ${code}: `) });
      expect(fault?.message).toContain(folder);
    }
  });

  test.each([
    ["an error of this program", new TypeError("undefined is not a function")],
    ["an error of the runtime", Object.assign(new Error("no"), { code: "ERR_INVALID_ARG_VALUE" })],
    ["an error of the database", new LibsqlError("disk I/O error", "SQLITE_IOERR")],
    ["an abort", new DOMException("aborted", "AbortError")],
    ["something else than an error", "EIO"],
  ])("%s is none", (_name, error) => {
    expect(fileSystemError(error, "trying")).toBeNull();
  });
});

describe("faultOf", () => {
  test.each([
    ["what has a class", new ToolError("git_push", "refused"), "git_push", "refused"],
    ["a full disk", systemError("ENOSPC"), "no_space", "the disk is full"],
    ["another error of the system", systemError("EIO"), "file_system", "EIO: as the system calls it, open '/a/b'"],
    ["a locked database", new StorageBusyError(30_000, null), "database", "locked by another program"],
    ["a failing database", new LibsqlError("disk I/O error", "SQLITE_IOERR"), "database", "disk I/O error"],
    ["a fault of a statement", new LibsqlError("no such column", "SQLITE_ERROR"), "internal", "no such column"],
    ["a fault of this program", new TypeError("x is not a function"), "internal", "TypeError: x is not a function"],
    ["what is no error", "thrown", "internal", "thrown"],
    ["nothing", undefined, "internal", "undefined"],
  ])("%s", (_name, error, kind, reason) => {
    expect(faultOf(error)).toEqual({ class: kind, reason: expect.stringContaining(reason) });
  });

  test("says of what nobody foresaw one bounded line, without credentials", () => {
    const { reason } = faultOf(new Error(`at https://me:secret@example.org/\n${"x".repeat(10_000)}`));
    expect(reason).not.toMatch(/secret|\n/);
    expect(reason.length).toBeLessThan(1000);
  });
});
