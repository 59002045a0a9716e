import { resolve } from "node:path";

/**
 * The `file:` URL of a database with its path made absolute; null for what cannot be one: a database in memory (no second
 * process could read it), a host, or characters with a meaning in the URL (the driver and the file system would disagree).
 * @param path what stands behind `file:`.
 */
export const databaseFileUrl = (path: string, cwd: string): string | null => {
  const file = path.startsWith("///") ? path.slice(2) : path;
  if (file === "" || file.startsWith("//") || file.endsWith("/") || file.startsWith(":memory:")) return null;
  if (/[%?#\u0000-\u001f\u007f]/.test(file)) return null;
  const absolute = resolve(cwd, file);
  return /[%?#]/.test(absolute) ? null : `file:${absolute}`;
};

/** True for the URL of a database server. A token in it would be shown wherever the URL is: it has a variable of its own. */
export const isRemoteDatabaseUrl = (value: string): boolean => {
  if (!/^(?:https?|libsql):\/\/[^\s/]/i.test(value) || !URL.canParse(value)) return false;
  const { username, password, search, hash } = new URL(value);
  return username === "" && password === "" && hash === "" && (search === "" || /^\?tls=[01]$/.test(search));
};
