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

const report = await runCrashes({
  seed,
  rounds: planned(),
  keepFolder: values.keep,
  onLine: (text) => void process.stdout.write(`${text}\n`),
});
process.stdout.write(`${tellReport(report)}\n${JSON.stringify({ crash: report })}\n`);
process.exit(report.violations.length === 0 ? 0 : 1);
