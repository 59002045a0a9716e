import type { Log } from "../log.ts";

/** What every handler finds in its context. */
export interface HttpEnv {
  Variables: {
    requestId: string;
    /** Writes the request's id into each of its lines. */
    log: Log;
  };
}
