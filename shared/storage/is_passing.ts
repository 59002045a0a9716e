import { StorageBusyError, StorageUnreachableError } from "./connection.ts";
import { isOfFile } from "./driver_errors.ts";

/** Whether a failed database operation may succeed when it is tried again: locked, unreachable, disk full, read-only for now. */
export const isPassing = (error: unknown): boolean =>
  error instanceof StorageBusyError || error instanceof StorageUnreachableError || isOfFile(error);
