import type { LookupFunction } from "node:net";

/** The name resolution of one request. */
export interface WatchedLookup {
  /** To be given to the request. A host that is an address is never asked for. */
  lookup: LookupFunction;
  /** For how long the name has been waited for by now; null where nothing is waited for. */
  waitingMs: () => number | null;
}

/**
 * A lookup that can be asked whether it is still waiting: from outside, a name server that is silent looks like a host that
 * is. `getaddrinfo` gives such a server 5 s and asks it again, so its own error comes after most requests are out of time.
 */
export const watchLookup = (lookup: LookupFunction): WatchedLookup => {
  let sinceMs: number | null = null;
  return {
    waitingMs: () => (sinceMs === null ? null : performance.now() - sinceMs),
    lookup: (hostname, options, callback) => {
      sinceMs = performance.now();
      lookup(hostname, options, (...answer) => {
        sinceMs = null;
        callback(...answer);
      });
    },
  };
};
