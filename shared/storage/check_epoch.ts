import type { Connection } from "./connection.ts";

/** Another scheduler has taken over: nothing more may be written, pushed or started by this one. */
export class FencedOffError extends Error {
  readonly code = "fenced_off";

  constructor(mine: number, found: number | null) {
    super(
      `this scheduler holds epoch ${mine}, the database is at epoch ${found ?? "none"}: another scheduler has taken over`,
    );
    this.name = "FencedOffError";
  }
}

/** @throws {FencedOffError} where the database is no longer at the epoch that the caller writes under. */
export const checkEpoch = async (source: Pick<Connection, "query">, mine: number): Promise<void> => {
  const [lease] = await source.query<{ epoch: number }>("SELECT epoch FROM scheduler_lease WHERE id = 1");
  if (lease?.epoch !== mine) throw new FencedOffError(mine, lease?.epoch ?? null);
};
