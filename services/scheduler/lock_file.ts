import { dirname, join } from "node:path";
import { databaseFileOf } from "@orchestrator/shared/storage/database_file.ts";

/**
 * The file of the lock that makes a process the only scheduler of a file database. It stands beside the database itself,
 * whatever links lead there: beside a link there would be a lock of its own for each name that the database goes by.
 * @throws {UnusableError} where the links lead nowhere.
 */
export const lockFileOf = async (dbUrl: string): Promise<string> =>
  join(dirname(await databaseFileOf(dbUrl)), "scheduler.lock.db");
