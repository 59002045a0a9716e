import { setTimeout as sleep } from "node:timers/promises";
import type { StagingRunRequest } from "@orchestrator/shared/schemas/staging_run.ts";
import type { Connection } from "@orchestrator/shared/storage/connection.ts";
import { readKnownVersion, SchemaTooNewError } from "@orchestrator/shared/storage/migrate.ts";
import { DatabaseMissingError, openReadOnly } from "@orchestrator/shared/storage/open.ts";
import { readInstanceId, readStagingJob, type StagingJob } from "@orchestrator/shared/storage/read_staging_job.ts";

/** While the scheduler is just starting or stopping, opening its database can fail for a moment. */
const TRIES = 3;
const PAUSE_MS = 300;

/** The scheduler's database, read only. It is opened when it is first needed, since the scheduler may start later. */
export class StagerDatabase {
  readonly #url: string;
  readonly #authToken: string | null;
  #connection: Promise<Connection> | null = null;

  constructor(url: string, authToken: string | null) {
    this.#url = url;
    this.#authToken = authToken;
  }

  /** @throws where the database is not there or cannot be read. */
  async readJob(request: StagingRunRequest): Promise<StagingJob | null> {
    const job = await this.#read((connection) => readStagingJob(connection, request));
    if (job !== null) return job;
    // A database that was made anew stands under the same name, while the open file is the old one.
    await this.close();
    return this.#read((connection) => readStagingJob(connection, request));
  }

  /** @throws where the database is not there or cannot be read. */
  readInstanceId(): Promise<string | null> {
    return this.#read(readInstanceId);
  }

  async close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = null;
    await (await connection?.catch(() => null))?.close();
  }

  /** A newer scheduler may have given the tables another meaning. */
  async #open(): Promise<Connection> {
    const connection = await openReadOnly(this.#url, this.#authToken);
    try {
      await readKnownVersion(connection);
      return connection;
    } catch (error) {
      await connection.close();
      throw error;
    }
  }

  async #read<T>(read: (connection: Connection) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        this.#connection ??= this.#open();
        return await read(await this.#connection);
      } catch (error) {
        await this.close();
        if (tries === TRIES || error instanceof DatabaseMissingError || error instanceof SchemaTooNewError) throw error;
        await sleep(PAUSE_MS);
      }
    }
  }
}
