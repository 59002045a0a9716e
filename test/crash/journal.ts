import { readFile } from "node:fs/promises";
import type { CrashSite } from "./site.ts";

/** What the agents noted themselves, where no crash of the services reaches. */
export interface Journal {
  notes: {
    kind: "start" | "wrote" | "end" | "overlap";
    jobId: number;
    runId: number;
    workItemId: string;
    stage: string;
  }[];
}

export const readJournal = async ({ journal }: CrashSite): Promise<Journal> => {
  const text = await readFile(journal, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  const lines = text.split("\n").slice(0, -1);
  return {
    notes: lines.map((line) => {
      const [kind = "", job, run, workItemId = "", stage = ""] = line.split(" ");
      const ids = { jobId: Number(job), runId: Number(run), workItemId };
      return { kind: kind as Journal["notes"][number]["kind"], ...ids, stage };
    }),
  };
};
