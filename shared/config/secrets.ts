import type { Config } from "./config.ts";

/** What a configuration holds that no log, event, error or notification may show. */
export const secretsOf = ({ apiToken, stagerToken, dbAuthToken, notify }: Config): string[] => {
  const target = notify?.target;
  // Whoever knows the path of such a URL may often post there.
  const notified = target?.kind === "url" ? [target.secret, target.url] : [];
  return [apiToken, stagerToken, dbAuthToken, ...notified].filter((secret) => secret !== null);
};
