import { type AskLimits, ask, askReadiness } from "./ask_readiness.ts";
import type { Check } from "./checks.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

/** Whether a stager answers, can take runs, and accepts the token that the scheduler sends. It is asked for nothing else. */
export const checkStager: Check = async ({ config, signal, timeoutsMs }) => {
  const { stagerUrl, stagerToken, stagingRunnerEnabled } = config;
  if (!stagingRunnerEnabled) return [ok("stager", "not used (ORCH_STAGING_RUNNER_ENABLED is false)")];
  const limits = { signal, timeoutMs: timeoutsMs.service };
  const readiness = await askReadiness(stagerUrl, limits);
  switch (readiness.kind) {
    case "nobody":
      return [
        // Nothing need run while it is being checked whether everything can: staging waits for its stager anyway.
        warn(
          "stager",
          `${stagerUrl} does not answer (${readiness.reason})`,
          "npm start starts it; where it runs elsewhere, correct ORCH_STAGER_URL",
        ),
      ];
    case "other":
      return [
        fail("stager", `what listens on ${stagerUrl} is no stager (${readiness.reason})`, "correct ORCH_STAGER_URL"),
      ];
    case "ready":
    case "not_ready": {
      const reasons = readiness.kind === "ready" ? [] : readiness.reasons;
      return [await checkToken(stagerUrl, stagerToken, reasons, limits)];
    }
  }
};

/** The document needs the token as a run does, and reading it starts nothing. */
const checkToken = async (
  url: string,
  token: string | null,
  reasons: readonly string[],
  limits: AskLimits,
): Promise<Finding> => {
  const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` };
  const answer = await ask(`${url}/openapi.json`, headers, limits);
  if (answer.kind === "answer" && answer.status === 401) {
    return token === null
      ? fail("stager", `${url} asks for a token`, "set ORCH_STAGER_TOKEN here to the one that it has")
      : fail("stager", `${url} does not accept ORCH_STAGER_TOKEN`, "give both services the same token");
  }
  if (answer.kind === "answer" && answer.status === 200 && !/"title":\s*"Orchestrator: stager"/.test(answer.text)) {
    return fail("stager", `what listens on ${url} is another service`, "correct ORCH_STAGER_URL");
  }
  if (reasons.length > 0)
    return warn("stager", `${url} answers and is not ready: ${reasons.join("; ")}`, "see its log");
  if (answer.kind === "nobody" || answer.status !== 200) {
    const said = answer.kind === "nobody" ? answer.reason : `it answered ${answer.status}`;
    return warn("stager", `${url} is ready, but its document cannot be read (${said})`, "see its log");
  }
  return ok("stager", `${url} is ready${token === null ? "" : " and accepts the token"}`);
};
