import type { Config } from "@orchestrator/shared/config/config.ts";

/** A shorter value could be any word, and taking it out would only spoil the text. */
const MIN_SECRET = 6;

/** What a configuration holds that no output may show. The keys of agents are given to nothing that is run here. */
export const secretsOf = ({ apiToken, stagerToken, dbAuthToken, notify }: Config): string[] =>
  [
    ...[apiToken, stagerToken, dbAuthToken],
    ...(notify?.target.kind === "url" ? [notify.target.secret, notify.target.url] : []),
  ].filter((value) => value !== null && value.length >= MIN_SECRET) as string[];
