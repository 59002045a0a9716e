import { join } from "node:path";

/** Where run logs are kept. */
export const runLogFolder = (dataDir: string): string => join(dataDir, "logs");

/** The log of one run. The name holds nothing that came from outside. */
export const runLogPath = (dataDir: string, runId: number): string => join(runLogFolder(dataDir), `${runId}.log`);

/** Whose log a file of that folder is; null for what is none. */
export const runOfLog = (name: string): number | null => {
  const id = /^([1-9]\d*)\.log$/.exec(name)?.[1];
  return id === undefined ? null : Number(id);
};
