import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { loadConfig } from "@orchestrator/shared/config/load_config.ts";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { projectRoot } from "../helpers/runtime.ts";
import { tempFolder } from "../helpers/temp_folder.ts";

type Service = "scheduler" | "stager";

/** What the images set themselves, and what the scheduler has made before the stager starts. */
const IN_THE_IMAGE = {
  scheduler: { ORCH_HOST: "0.0.0.0", ORCH_API_TOKEN: "made-token", ORCH_STAGER_TOKEN: "made-token" },
  stager: { ORCH_STAGER_HOST: "0.0.0.0", ORCH_STAGER_TOKEN: "made-token" },
} satisfies Record<Service, Record<string, string>>;

/** `${NAME:-default}`, as Compose fills it in. */
const fillIn = (text: string, dotEnv: Readonly<Record<string, string>>): string =>
  text.replaceAll(/\$\{(\w+):-([^}]*)\}/g, (_, name: string, fallback: string) => dotEnv[name] || fallback);

/** The variables that `compose.yaml` gives a service where this is in `.env`. */
const environmentOf = async (
  service: Service,
  dotEnv: Readonly<Record<string, string>>,
): Promise<Record<string, string>> => {
  const text = await readFile(join(projectRoot, "compose.yaml"), "utf8");
  const { services } = parse(text, { merge: true }) as {
    services: Record<Service, { environment: Record<string, string> }>;
  };
  const given = Object.entries(services[service].environment).map(([name, value]) => [name, fillIn(value, dotEnv)]);
  return Object.fromEntries(given.filter(([, value]) => value !== "")) as Record<string, string>;
};

const faultsOf = async (service: Service, dotEnv: Readonly<Record<string, string>>, yaml: string) => {
  const dataDir = join(await tempFolder(), "data");
  await mkdir(dataDir);
  await writeFile(join(dataDir, "orchestrator.yaml"), yaml);
  const env = { ...IN_THE_IMAGE[service], ...(await environmentOf(service, dotEnv)), ORCH_DATA_DIR: dataDir };
  const loaded = loadConfig(env, { service });
  return loaded.kind === "invalid" ? loaded.faults : [];
};

/** A pipeline whose staging an agent does, in an artifact of its own: wrong where the staging runner is to do it. */
const OWN_STAGING = `
pipeline:
  stages:
    - { name: development, agent: developer, artifact: 11-development-log.md, writes: code }
    - name: deploy-staging
      agent: deployer
      artifact: my-staging.md
      gate: { key: my_status, pass: [FINE], fail: [BROKEN], on_fail: development }
`;

describe("a configuration is right or wrong for both services alike", () => {
  test.each([
    ["with the staging runner off", { ORCH_STAGING_RUNNER_ENABLED: "false" }, 0],
    ["with it on", { ORCH_STAGING_RUNNER_ENABLED: "true" }, 2],
    ["with nothing said of it", {}, 2],
  ])("staging of one's own, %s", async (_, dotEnv, count) => {
    const faults = await faultsOf("scheduler", dotEnv, OWN_STAGING);
    expect(faults).toHaveLength(count);
    const withoutPath = (fault: string) => fault.replace(/^\S+orchestrator\.yaml/, "");
    expect((await faultsOf("stager", dotEnv, OWN_STAGING)).map(withoutPath)).toEqual(faults.map(withoutPath));
  });
});
