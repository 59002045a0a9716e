import type { Tenure } from "../../services/scheduler/lease_keeper.ts";

/** That of a scheduler which nobody takes the database from. */
export const lastingTenure: Tenure = { confirm: async () => {}, fault: () => null, stop: async () => {} };
