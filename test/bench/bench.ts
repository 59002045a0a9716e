import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { databasePath, openBenchSite } from "./bench_site.ts";
import { fillHistory } from "./fill_history.ts";
import { timePosting } from "./time_posting.ts";
import { timeRequests } from "./time_requests.ts";

// --jobs N: how much history there is; --only requests|posting: a part of the figures.
const { values } = parseArgs({ options: { jobs: { type: "string", default: "1000000" }, only: { type: "string" } } });
const jobs = Number(values.jobs);
/** So much history that a page of it is full, also of what is done. */
const PAGE_JOBS = 500;

/** A database in a folder of its own, with a history. */
const site = async (folder: string, finishedJobs: number) => {
  if (finishedJobs > 0) {
    const made = await openBenchSite(folder);
    await made.storage.close();
    await fillHistory(await databasePath(folder), finishedJobs);
  }
  return openBenchSite(folder);
};

const folder = await mkdtemp(join(tmpdir(), "orchestrator-bench-"));
try {
  if (values.only !== "posting") {
    const sites = {
      empty: await site(join(folder, "empty"), 0),
      page: await site(join(folder, "page"), PAGE_JOBS),
      full: await site(join(folder, "full"), jobs),
    };
    await timeRequests(sites, jobs);
    for (const { storage } of Object.values(sites)) await storage.close();
  }
  if (values.only !== "requests") await timePosting(folder);
} finally {
  await rm(folder, { recursive: true, force: true });
}
