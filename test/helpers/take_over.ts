import { fileOfUrl } from "@orchestrator/shared/storage/connection.ts";
import type { Site } from "./scheduler.ts";
import { openTestStorage } from "./storage.ts";

/** Another scheduler takes the site's database over: it has the next epoch. */
export const takeOver = async ({ config }: Site): Promise<void> => {
  const { storage } = await openTestStorage({ path: fileOfUrl(config.dbUrl) });
  await storage.close();
};
