/**
 * True for a name that `git check-ref-format --branch` accepts as it stands (git also expands `@{-1}` there; a name is not
 * an expression, so that is refused). The rules are those of git's `refs.c` for `refs/heads/<name>`.
 */
export const isBranchName = (name: string): boolean =>
  name.isWellFormed() &&
  name !== "HEAD" &&
  !name.startsWith("-") &&
  !name.endsWith(".") &&
  !/[\u0000-\u0020\u007f~^:?*[\\]|\.\.|@\{/.test(name) &&
  name.split("/").every((part) => part !== "" && !part.startsWith(".") && !part.endsWith(".lock"));
