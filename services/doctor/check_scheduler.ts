import { isFileUrl } from "@orchestrator/shared/storage/connection.ts";
import { openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { type Holder, isReleased, readLease } from "@orchestrator/shared/storage/take_lease.ts";
import { unusableDatabase } from "@orchestrator/shared/storage/unusable_database.ts";
import { UnusableError } from "@orchestrator/shared/unusable.ts";
import { lookAtLock } from "../scheduler/scheduler_lock.ts";
import { askReadiness, type Readiness } from "./ask_readiness.ts";
import type { Check, CheckContext } from "./checks.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

export interface SchedulerView {
  /** Who works on the database; `lapsed` where nobody has said so for longer than a lease holds. */
  lock: { kind: "free" } | { kind: "held"; holder: Holder | null } | { kind: "lapsed"; holder: Holder };
  /** What listens at the scheduler's address; null where its port is chosen at the start. */
  listening: Readiness | null;
  /** Host and port. */
  address: string;
}

/** Who holds the scheduler lock, and what listens where the scheduler does or would. Nobody who runs is disturbed. */
export const checkScheduler: Check = async (context) => {
  const { config, signal, timeoutsMs } = context;
  const host = config.host === "0.0.0.0" ? "127.0.0.1" : config.host === "::" ? "::1" : config.host;
  const address = `${host.includes(":") ? `[${host}]` : host}:${config.port}`;
  try {
    const [lock, listening] = await Promise.all([
      lookAtHolder(context),
      config.port === 0 ? null : askReadiness(`http://${address}`, { signal, timeoutMs: timeoutsMs.service }),
    ]);
    return [judgeScheduler({ lock, listening, address })];
  } catch (error) {
    const known = unusableDatabase(error, config.dbUrl);
    if (known instanceof UnusableError)
      return [fail("scheduler", `the lock cannot be read: ${known.found}`, known.todo)];
    throw error;
  }
};

const lookAtHolder = async ({ config, clock }: CheckContext): Promise<SchedulerView["lock"]> => {
  if (isFileUrl(config.dbUrl)) return lookAtLock(config.dbUrl);
  const connection = await openReadOnly(config.dbUrl, config.dbAuthToken);
  try {
    const lease = await readLease(connection);
    if (lease === null || isReleased(lease)) return { kind: "free" };
    const { holder, expiresAt } = lease;
    return Date.parse(expiresAt) < clock.now() ? { kind: "lapsed", holder } : { kind: "held", holder };
  } finally {
    await connection.close();
  }
};

/** What lock and port say together. */
export const judgeScheduler = ({ lock, listening, address }: SchedulerView): Finding => {
  const somebody = listening !== null && listening.kind !== "nobody";
  switch (lock.kind) {
    case "free":
      return somebody
        ? fail(
            "scheduler",
            `no scheduler works on this database, but somebody listens on ${address}`,
            "end what listens there, or choose another ORCH_PORT",
          )
        : ok(
            "scheduler",
            `none runs; ${listening === null ? "its port is chosen at the start" : `${address} is free`}`,
          );
    case "lapsed":
      return warn(
        "scheduler",
        `the lease of ${showHolder(lock.holder)} has lapsed`,
        "if that scheduler is gone, start one; if not, see in its log why it cannot renew",
      );
    case "held":
      return judgeRunning(showHolder(lock.holder), listening, address);
  }
};

const judgeRunning = (holder: string, listening: Readiness | null, address: string): Finding => {
  switch (listening?.kind) {
    case undefined:
      return ok("scheduler", `runs (${holder})`);
    case "ready":
      return ok("scheduler", `runs (${holder}) and is ready on ${address}`);
    case "not_ready":
      return warn("scheduler", `runs (${holder}) and is not ready: ${listening.reasons.join("; ")}`, "see its log");
    case "nobody":
      return warn(
        "scheduler",
        `runs (${holder}), but does not answer on ${address} (${listening.reason})`,
        "is it in a container, on another machine, or set to another address?",
      );
    case "other":
      return warn(
        "scheduler",
        `runs (${holder}), but what listens on ${address} is no scheduler (${listening.reason})`,
        "is it set to another address?",
      );
  }
};

const showHolder = (holder: Holder | null): string =>
  holder === null ? "it has not named itself yet" : `pid ${holder.pid} on ${holder.host}, since ${holder.since}`;
