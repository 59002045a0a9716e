import { parseArgs } from "node:util";
import { tellReport } from "./figures.ts";
import { runCrashes } from "./harness.ts";
import { seededRandom } from "./random.ts";
import { everyPoint, manyRounds, pointRound, type Round } from "./rounds.ts";

// npm run test:crash -- --rounds 1000 --seed 7
// Without --rounds every point once. A fifth of the rounds are the stager's. --point <service>:<point> kills there alone.

const { values } = parseArgs({
  options: {
    rounds: { type: "string" },
    seed: { type: "string", default: String(Date.now() % 100_000) },
    point: { type: "string" },
    keep: { type: "boolean", default: false },
  },
});
const seed = Number(values.seed);
const random = seededRandom(seed);
const count = values.rounds === undefined ? null : Number(values.rounds);
if (!Number.isSafeInteger(seed) || (count !== null && !(Number.isSafeInteger(count) && count > 0))) {
  process.stderr.write("--rounds and --seed take whole numbers\n");
  process.exit(2);
}

const planned = (): { scheduler: Round[]; stager: Round[] } => {
  if (values.point !== undefined) {
    const [service, point = ""] = values.point.split(":");
    const rounds = Array.from({ length: count ?? 1 }, () => pointRound(point, random));
    return service === "stager" ? { scheduler: [], stager: rounds } : { scheduler: rounds, stager: [] };
  }
  if (count === null) return { scheduler: everyPoint("scheduler", random), stager: everyPoint("stager", random) };
  const stager = Math.floor(count / 5);
  return { scheduler: manyRounds("scheduler", count - stager, random), stager: manyRounds("stager", stager, random) };
};

const stop = new AbortController();
for (const name of ["SIGINT", "SIGTERM"] as const)
  process.once(name, () => stop.abort(new Error(`stopped by ${name}`)));

const report = await runCrashes({
  seed,
  signal: stop.signal,
  rounds: planned(),
  keepFolder: values.keep,
  onLine: (text) => void process.stdout.write(`${text}\n`),
}).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
});
process.stdout.write(`${tellReport(report)}\n${JSON.stringify({ crash: report })}\n`);
process.exit(report.violations.length === 0 ? 0 : 1);
