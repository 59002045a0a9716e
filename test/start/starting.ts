import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { type ServiceEnding, startService } from "../helpers/service_process.ts";
import { tempFolder } from "../helpers/temp_folder.ts";

/** A place for a service that is not going to start. */
export interface Place {
  folder: string;
  data: string;
  database: string;
}

export const makePlace = async (): Promise<Place> => {
  const folder = await tempFolder();
  const data = join(folder, "data");
  await mkdir(data);
  return { folder, data, database: join(data, "orchestrator.db") };
};

export interface Start {
  env?: Record<string, string>;
  heedPermissions?: boolean;
}

/** Starts a service in a place and waits for its end. */
export const startIn = (
  service: "scheduler" | "stager",
  { folder, data }: Place,
  { env = {}, heedPermissions = false }: Start,
): Promise<ServiceEnding> =>
  startService(`services/${service}/main.ts`, {
    env: {
      HOME: folder,
      ORCH_DATA_DIR: data,
      ORCH_PORT: "0",
      ORCH_STAGER_PORT: "0",
      ORCH_STAGING_RUNNER_ENABLED: "false",
      ...env,
    },
    heedPermissions,
  }).ended;

/** The one line that says why a start failed; everything else about how it ended is checked. */
export const whyFailed = (ending: ServiceEnding, code: number): string => {
  expect(ending).toMatchObject({ code, signal: null, stderr: "" });
  const lines = ending.stdout.trimEnd().split("\n");
  expect(ending.log).toHaveLength(lines.length);
  expect(ending.stdout).not.toMatch(/\bat .*\.ts:\d+/);
  const fatal = ending.log.filter(({ level }) => level === "fatal");
  expect(fatal).toHaveLength(1);
  expect(ending.log.at(-1)).toBe(fatal[0]);
  expect(fatal[0]!.msg).not.toContain("\n");
  return fatal[0]!.msg;
};
