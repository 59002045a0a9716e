/**
 * `node count_tests.mjs <report.json> <exit code>` prints "<passed> <failed>" for a JSON report of vitest.
 *
 * More can go wrong than a test: a file that does not load, an error outside any test, a run of nothing. Each counts as a
 * failure, and so does a skipped test: a gate that skips is not one.
 */
import { readFileSync } from "node:fs";

const [path, exitCode] = process.argv.slice(2);
const { testResults } = JSON.parse(readFileSync(path, "utf8"));

let passed = 0;
let failed = 0;
for (const { name, status, message, assertionResults } of testResults) {
  const bad = assertionResults.filter((test) => test.status !== "passed");
  for (const test of bad) process.stderr.write(`${test.status}: ${name} > ${test.fullName}\n`);
  passed += assertionResults.length - bad.length;
  failed += bad.length;
  if (status !== "passed" && bad.length === 0) {
    process.stderr.write(`${status}: ${name}: ${message}\n`);
    failed += 1;
  }
}
if (passed + failed === 0) {
  process.stderr.write("no test was run\n");
  failed += 1;
}
if (Number(exitCode) !== 0 && failed === 0) {
  process.stderr.write(`no test failed, and yet the exit code is ${exitCode}\n`);
  failed += 1;
}
process.stdout.write(`${passed} ${failed}\n`);
