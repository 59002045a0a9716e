import { resolve } from "node:path";

export const GIT_URL_ACCEPTED = "a path, an https, http, ssh, git or file URL, or user@host:path";

const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//;
/** `[user@]host:path`: what git takes for ssh. A host cannot begin with `-`: ssh would take it for an option. */
const SCP_LIKE = /^(?:[A-Za-z0-9_][^@/:\s]*@)?[A-Za-z0-9][A-Za-z0-9._-]*:(?!:).+$/;

/**
 * True for what git may be given to fetch from. Remote helpers (`ext::command`) run programs, and what begins with `-` is an
 * option: neither is a repository.
 */
export const isGitUrl = (url: string): boolean => {
  if (url === "" || /[\u0000-\u001f\u007f]/.test(url) || url.startsWith("-")) return false;
  const scheme = SCHEME.exec(url)?.[1]?.toLowerCase();
  if (scheme === undefined) return isLocalPath(url) || SCP_LIKE.test(url);
  if (scheme === "file") return /^file:\/\/\/./i.test(url);
  if (!["https", "http", "ssh", "git"].includes(scheme) || !URL.canParse(url)) return false;
  const { hostname } = new URL(url);
  return hostname !== "" && !hostname.startsWith("-");
};

/** As git decides: a colon before the first slash makes it a host. */
const isLocalPath = (url: string): boolean => !/^[^/]*:/.test(url);

/** The URL with a path made absolute, relative to `baseDir`. */
export const resolveGitUrl = (url: string, baseDir: string): string =>
  !SCHEME.test(url) && isLocalPath(url) ? resolve(baseDir, url) : url;

/** True where the URL carries a password (or a token in a user's place), which git may print. */
export const holdsPassword = (url: string): boolean => {
  if (!URL.canParse(url)) return false;
  const { protocol, username, password } = new URL(url);
  return password !== "" || (username !== "" && /^https?:$/.test(protocol));
};
