/** What a stager must be able to do before it can take a run. Each check throws, or answers with what is not right. */
export interface ReadinessChecks {
  isStopping: () => boolean;
  readInstanceId: () => Promise<string | null>;
  probeScratch: () => Promise<void>;
}

/** @returns why no run can be taken now; empty when one can. */
export const whyNotReady = async ({ isStopping, readInstanceId, probeScratch }: ReadinessChecks): Promise<string[]> => {
  const reasons = await Promise.all([
    isStopping() ? "the stager is stopping" : null,
    readInstanceId().then(
      (instanceId) => (instanceId === null ? "the scheduler has not started with this database yet" : null),
      (error: unknown) => `the database cannot be read: ${messageOf(error)}`,
    ),
    probeScratch().then(
      () => null,
      (error: unknown) => `the scratch directory cannot be written: ${messageOf(error)}`,
    ),
  ]);
  return reasons.filter((reason) => reason !== null);
};

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
