import { delimiter, join } from "node:path";

/**
 * The environment of everything that the demo starts. HOME and TMPDIR are in the demo's own directory: nothing is written
 * anywhere else, the user's git configuration plays no part, and whatever has been started, by whomever, is known by it.
 *
 * @param binDirectory put before PATH; null: PATH as it is.
 */
export const baseEnvironment = (options: {
  directory: string;
  binDirectory: string | null;
}): Record<string, string> => {
  const { directory, binDirectory } = options;
  const path = process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin";
  return {
    PATH: binDirectory === null ? path : `${binDirectory}${delimiter}${path}`,
    HOME: join(directory, "home"),
    TMPDIR: join(directory, "tmp"),
    LANG: "C.UTF-8",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_AUTHOR_NAME: "Sample",
    GIT_AUTHOR_EMAIL: "sample@localhost",
    GIT_COMMITTER_NAME: "Sample",
    GIT_COMMITTER_EMAIL: "sample@localhost",
  };
};
