import type { ClaimRules } from "@orchestrator/shared/storage/claim_job.ts";
import { claimJob } from "@orchestrator/shared/storage/claim_job.ts";
import { settleRun } from "../../services/scheduler/settle.ts";
import type { BenchSite } from "./bench_site.ts";
import { type Operation, print, quietest, ratioOf, round, timeInTurn } from "./measure.ts";

/** More than the contract asks of `GET /queue` (p99, in ms). */
const QUEUE_LIMIT_MS = 5;

const PROMETHEUS_ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";

/** Reads a path through the whole app, from the request to the last byte of its answer. */
const get =
  ({ app }: BenchSite, path: string, accept = "application/json"): Operation =>
  async (timed) => {
    await timed(async () => {
      const response = await app.request(path, { headers: { host: "127.0.0.1", accept } });
      const body = await response.text();
      if (response.status !== 200) throw new Error(`GET ${path} answered ${response.status}: ${body}`);
    });
  };

const RULES: ClaimRules = {
  limits: { total: 4, perRepo: {}, perAgent: {} },
  environments: { shop: "shop" },
  probes: () => new Set(),
  modelOf: () => null,
  logPathOf: (runId) => `/data/logs/${runId}.log`,
};

let posted = 0;

const post = async ({ app }: BenchSite): Promise<void> => {
  const response = await app.request("/tasks", {
    method: "POST",
    headers: { host: "127.0.0.1", "content-type": "application/json" },
    body: JSON.stringify({
      work_item_id: `NEW-${++posted}`,
      title: "A title",
      description: "text ".repeat(40),
      repo: "shop",
    }),
  });
  await response.arrayBuffer();
  if (response.status !== 201) throw new Error(`POST /tasks answered ${response.status}`);
};

const claim = ({ storage }: BenchSite) => storage.write((tx) => claimJob(tx, RULES));

const settle = ({ settleDeps }: BenchSite, runId: number) =>
  settleRun(settleDeps, runId, { kind: "passed", head: "0123456789abcdef0123456789abcdef01234567" });

/** Times one step of a job's life; the other steps are made as well, so that each sample finds the same. */
const step =
  (site: BenchSite, which: "post" | "claim" | "settle"): Operation =>
  async (timed) => {
    if (site.storage.tally.jobs().queued === 0 || which === "post") {
      await (which === "post" ? timed(() => post(site)) : post(site));
    }
    const claimed = await (which === "claim" ? timed(() => claim(site)) : claim(site));
    if (claimed === null) throw new Error("there was nothing to claim");
    const settled = await (which === "settle"
      ? timed(() => settle(site, claimed.run.id))
      : settle(site, claimed.run.id));
    if (settled.kind !== "settled") throw new Error(`not settled but ${settled.kind}`);
  };

export interface Sites {
  /** No task and no job at all. */
  empty: BenchSite;
  /** As many finished tasks and jobs as one page holds, so that a page is as long as one of the full database. */
  page: BenchSite;
  full: BenchSite;
}

/** Prints what requests and writes take beside a history, and without. */
export const timeRequests = async ({ empty, page, full }: Sites, history: number): Promise<void> => {
  const compare = async (
    figure: string,
    operations: { bare: Operation; full: Operation },
    plan: { samples: number; limitMs?: number },
  ): Promise<void> => {
    const rounds = await timeInTurn(operations, { samples: plan.samples, rounds: 9, warmUp: 200 });
    const [bare, full] = [quietest(rounds.bare), quietest(rounds.full)];
    print({
      figure,
      unit: "ms",
      finished_jobs: history,
      bare_p50: round(bare.p50),
      bare_p99: round(bare.p99),
      p50: round(full.p50),
      p99: round(full.p99),
      p50_ratio: round(ratioOf("p50", rounds.full, rounds.bare), 2),
      p99_ratio: round(ratioOf("p99", rounds.full, rounds.bare), 2),
      ...(plan.limitMs === undefined ? {} : { p99_limit: plan.limitMs }),
    });
  };
  const read = (path: string, bare: BenchSite, accept?: string) => ({
    bare: get(bare, path, accept),
    full: get(full, path, accept),
  });
  const write = (which: "post" | "claim" | "settle") => ({ bare: step(empty, which), full: step(full, which) });

  const queue = { samples: 2000, limitMs: QUEUE_LIMIT_MS };
  await compare("GET /queue (JSON)", read("/queue", empty), queue);
  await compare("GET /queue (Prometheus)", read("/queue", empty, PROMETHEUS_ACCEPT), queue);
  const lists = { samples: 1000 };
  await compare("GET /tasks", read("/tasks?limit=50", page), lists);
  await compare("GET /tasks?status=done&stage=done", read("/tasks?limit=50&status=done&stage=done", page), lists);
  await compare("GET /jobs", read("/jobs?limit=50", page), lists);
  await compare("GET /jobs?status=done", read("/jobs?limit=50&status=done", page), lists);
  await compare("POST /tasks, one at a time", write("post"), { samples: 300 });
  await compare("claim", write("claim"), { samples: 500 });
  await compare("settle", write("settle"), { samples: 500 });
};
