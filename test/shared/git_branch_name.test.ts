import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isBranchName } from "@orchestrator/shared/git_branch_name.ts";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const ACCEPTED = [
  "main",
  "work/ORCH-115",
  "a",
  "@",
  "a/@",
  "@/a",
  "a@b",
  "a{b}",
  "@a{b",
  "a/b/c/d",
  "feature/a-b_c.d",
  "-a".slice(1),
  "a-",
  "a/-b",
  "a/-",
  "head",
  "HEAD/a",
  "a/HEAD",
  "refs/heads/a",
  "FETCH_HEAD",
  "a.b",
  "a.lock.b",
  "a.lockb",
  "lock",
  "a/lock",
  "a.LOCK",
  "a.b/c",
  "a%b",
  "a;b",
  "a|b",
  "a&b",
  "a$b",
  "a`b",
  "$(a)",
  "a'b",
  'a"b',
  "a!b",
  "a#b",
  "#",
  "a,b",
  "a=b",
  "a+b",
  "a(b)",
  "a<b>",
  "a]",
  "]",
  "}",
  "{",
  "ä",
  "日本/語",
  "🚀",
  "a\u00a0b",
  "a\u0085b",
  "a\u2028b",
  "0",
  "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef",
  "x".repeat(300),
];

const REFUSED = [
  "",
  "HEAD",
  "-",
  "-a",
  "--help",
  "-/a",
  ".",
  "..",
  ".a",
  "a.",
  "a..b",
  "a/.b",
  "a/./b",
  "a/../b",
  "../a",
  "a/b.",
  "a./b.",
  "/",
  "/a",
  "a/",
  "a//b",
  "//",
  ".lock",
  "a.lock",
  "a.lock/b",
  "a/b.lock",
  "a/.lock/b",
  "@{",
  "a@{b",
  "@{-1}",
  "@{u}",
  "a@{1}",
  " ",
  " a",
  "a ",
  "a b",
  "a~b",
  "a~1",
  "a^b",
  "a^",
  "a:b",
  ":",
  "a?b",
  "a*b",
  "*",
  "a/*",
  "a[b",
  "[",
  "a\\b",
  "\\",
  "a\tb",
  "a\nb",
  "a\n",
  "a\rb",
  "a\u0001b",
  "a\u001fb",
  "a\u007fb",
];

let outside: string;
beforeAll(() => {
  outside = mkdtempSync(join(tmpdir(), "branch-name-"));
});
afterAll(() => rmSync(outside, { recursive: true }));

/** What git itself says, away from any repository, so that nothing is expanded. */
const gitAccepts = (name: string): boolean => {
  const { status, error } = spawnSync("git", ["check-ref-format", "--branch", name], {
    cwd: outside,
    env: { PATH: process.env["PATH"], GIT_CEILING_DIRECTORIES: tmpdir() },
  });
  if (error) throw error;
  return status === 0;
};

describe("isBranchName says what git says", () => {
  test.each(ACCEPTED)("accepted: %j", (name) => {
    expect({ we: isBranchName(name), git: gitAccepts(name) }).toEqual({ we: true, git: true });
  });

  test.each(REFUSED)("refused: %j", (name) => {
    expect({ we: isBranchName(name), git: gitAccepts(name) }).toEqual({ we: false, git: false });
  });

  test("for names made at random of what the rules speak about", () => {
    const part = fc.constantFrom(
      ..."ab./@{}-_ ~^:?*[\\\t\u007fä".split(""),
      ".lock",
      "..",
      "HEAD",
      "@{",
      "//",
      "lock",
      "🚀",
    );
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 6 }), (parts) => {
        const name = parts.join("");
        expect(isBranchName(name), name).toBe(gitAccepts(name));
      }),
      { numRuns: 250 },
    );
  });
});

test("what cannot be handed to git is refused", () => {
  expect(isBranchName("a\u0000b")).toBe(false);
  expect(isBranchName("a\ud800b")).toBe(false);
});
