import { createLog, type Log } from "@orchestrator/shared/log.ts";

export interface LogLine extends Record<string, unknown> {
  level: string;
  msg: string;
}

/** A log whose lines a test reads. */
export const keepLog = (): { log: Log; lines: LogLine[]; said: (text: string) => LogLine[] } => {
  const lines: LogLine[] = [];
  const write = (line: string) => void lines.push(JSON.parse(line) as LogLine);
  const log = createLog({ level: "info", service: "scheduler", secrets: [], destination: { write } });
  return { log, lines, said: (text) => lines.filter(({ msg }) => msg.includes(text)) };
};
