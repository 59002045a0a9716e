import { statSync } from "node:fs";
import { LibsqlError } from "@libsql/client";
import { UnusableError } from "../unusable.ts";
import { fileOfUrl, isFileUrl } from "./connection.ts";

/**
 * An error of opening a database as one that says which it is, what is wrong with it and what to do. An error that says so
 * already, or has nothing to do with the file or the server, is given back as it is.
 * @param instead what may be done instead of mending it; ends the sentence.
 */
export const unusableDatabase = (error: unknown, url: string, instead = "name another in ORCH_DB_URL"): unknown => {
  if (!isFileUrl(url)) return isOfServer(error) ? unusableServer(error, url) : error;
  if (!isOfFile(error)) return error;
  const path = fileOfUrl(url);
  const [wrong, todo] = whatIsWrong(path, error);
  return new UnusableError(`${path} ${wrong}`, `${todo}, or ${instead}`, { cause: error });
};

const isOfFile = (error: unknown): error is Error =>
  error instanceof LibsqlError || (error instanceof Error && error.message.startsWith("ConnectionFailed("));

/** A server that cannot be reached shows as the TypeError of a fetch, or as what the connection makes of it. */
const isOfServer = (error: unknown): error is Error =>
  error instanceof LibsqlError || error instanceof TypeError || isUnreachable(error);

const isUnreachable = (error: unknown): error is Error =>
  error instanceof Error && (error as { code?: unknown }).code === "storage_unreachable";

const unusableServer = (error: Error, url: string): UnusableError =>
  new UnusableError(
    `the database ${url} cannot be used (${chainOf(isUnreachable(error) ? error.cause : error)})`,
    "is the server up, and ORCH_DB_AUTH_TOKEN one that it accepts?",
    { cause: error },
  );

const whatIsWrong = (path: string, error: Error): [wrong: string, todo: string] => {
  const { message } = error;
  if (isDirectory(path)) return ["is a directory and no database", "move it away"];
  switch (primaryCodeOf(error)) {
    case "NOTADB":
      return ["is no database", "move it away"];
    case "ERROR":
      return [`is a database of another program (${message})`, "move it away"];
    case "CORRUPT":
      return [`is damaged (${message})`, "restore it from a backup"];
    case "READONLY":
    case "PERM":
    case "CANTOPEN": {
      const user = process.getuid?.() ?? "unknown";
      return [`cannot be written by user ${user} (${message})`, "give it and its folder to that user"];
    }
    case "FULL":
      return ["cannot be written, since the disk is full", "make room"];
    default:
      return [`cannot be used (${message})`, "look at the disk that it is on"];
  }
};

/** `READONLY` of `SQLITE_READONLY_DIRECTORY`; a file that cannot be opened at all comes without a code. */
const primaryCodeOf = (error: Error): string =>
  error instanceof LibsqlError ? (/^SQLITE_([A-Z]+)/.exec(error.code)?.[1] ?? "") : "CANTOPEN";

const isDirectory = (path: string): boolean => {
  try {
    return statSync(path).isDirectory();
  } catch {
    // Whatever keeps it from being looked at, the error that is being explained says more.
    return false;
  }
};

/** What a fetch has to say stands in the causes of its error. */
const chainOf = (error: unknown): string => {
  const messages: string[] = [];
  for (let at = error; at instanceof Error && messages.length < 4; at = at.cause) messages.push(at.message);
  return [...new Set(messages)].join(": ");
};
