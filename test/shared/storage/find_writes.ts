import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

/** All of the program's own source: path from the project's folder, and text without its comments. */
export const readSources = async (): Promise<Map<string, string>> => {
  const sources = new Map<string, string>();
  for (const folder of ["shared", "services"]) {
    for (const entry of await readdir(join(ROOT, folder), { recursive: true, withFileTypes: true })) {
      const path = relative(ROOT, join(entry.parentPath, entry.name));
      if (!entry.isFile() || !/\.(ts|tsx|js|mjs)$/.test(path) || path.includes("node_modules")) continue;
      sources.set(path, withoutComments(await readFile(join(ROOT, path), "utf8")));
    }
  }
  return sources;
};

/** Comments speak of statements and calls that are none. What stands in quotes stays, also where it looks like a comment. */
export const withoutComments = (source: string): string =>
  source.replace(
    /("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|\/\/[^\n]*|\/\*[\s\S]*?\*\//g,
    (_, quoted) => quoted ?? " ",
  );

/** In SQL of whatever case and spacing; the table may be quoted, or a placeholder of a template. */
const WRITES: readonly RegExp[] = [
  /\b(insert)\s+(?:or\s+\w+\s+)?into\s+(\$\{[^}]*\}|"?\w+)/gi,
  /\b(replace)\s+into\s+(\$\{[^}]*\}|"?\w+)/gi,
  /\b(update)\s+(?:or\s+\w+\s+)?(\$\{[^}]*\}|"?\w+)\s+set\b/gi,
  /\b(delete)\s+from\s+(\$\{[^}]*\}|"?\w+)/gi,
];

/** The statements in a source that write rows, as `UPDATE tasks`, in their order; `any`: of a table that is handed in. */
export const findWrites = (source: string): string[] =>
  WRITES.flatMap((pattern) => [...source.matchAll(pattern)])
    // `ON CONFLICT … DO UPDATE SET` is part of its INSERT.
    .filter(({ index }) => !/\bdo\s+$/i.test(source.slice(0, index)))
    .sort((a, b) => a.index - b.index)
    .map(([, verb, table]) => `${verb!.toUpperCase()} ${table!.startsWith("$") ? "any" : table!.replace('"', "")}`);

/** Where a transaction or a connection begins, and what else of the driver can write: as `transaction(`, in their order. */
export const findDoors = (source: string): string[] =>
  [
    ...source.matchAll(
      /\.(transaction|batch|execute|executeMultiple|migrate)\(|\b(createClient)\(|new (Connection|Tx|SqlTransaction)\(/g,
    ),
  ].map(([, method, made, constructed]) => method ?? made ?? `new ${constructed}`);
