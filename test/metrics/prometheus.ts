import { spawn } from "node:child_process";
import { once } from "node:events";

/** What Prometheus sends of itself, in the newest version that Debian has and in one of today. */
export const PROMETHEUS_ACCEPTS = [
  "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
  "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
];

/** The value of every series in a text, by its name and labels as they stand there. */
export const seriesOf = (text: string): Record<string, number> => {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return Object.fromEntries(
    lines.map((line) => {
      const space = line.lastIndexOf(" ");
      return [line.slice(0, space), Number(line.slice(space + 1))];
    }),
  );
};

/** Those series that are not 0, whose name begins with one of the prefixes. */
export const movedSeries = (text: string, ...prefixes: string[]): Record<string, number> =>
  Object.fromEntries(
    Object.entries(seriesOf(text)).filter(([name, value]) => value !== 0 && prefixes.some((p) => name.startsWith(p))),
  );

/** What `promtool check metrics` says of a text; nothing where it finds nothing wrong. */
export const promtoolFindings = async (text: string): Promise<string> => {
  const promtool = spawn("promtool", ["check", "metrics"], { stdio: ["pipe", "pipe", "pipe"] });
  const output: string[] = [];
  for (const stream of [promtool.stdout, promtool.stderr]) {
    stream.setEncoding("utf8").on("data", (part: string) => output.push(part));
  }
  const ended = once(promtool, "close").catch((error: NodeJS.ErrnoException) => {
    throw error.code === "ENOENT"
      ? new Error("there is no promtool: install Debian's package `prometheus`, or put promtool on the PATH")
      : error;
  });
  // Where there is no program there is no pipe either; the reason is in `ended`.
  promtool.stdin.on("error", () => undefined);
  promtool.stdin.end(text);
  const [code] = (await ended) as [number | null];
  const findings = output.join("");
  return code === 0 ? findings : `${findings}promtool ended with ${code}`;
};
