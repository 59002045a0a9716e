import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { type Client, createClient, type InValue, type ResultSet, type Transaction } from "@libsql/client";
import { onTestFinished } from "vitest";

/** A libSQL server with one database, which is a file: as much of its protocol (Hrana 2 in JSON) as the driver speaks. */
export interface DatabaseServer {
  url: string;
  /** Has the next transaction's begin get no answer, and be undone, as where a connection is dead without a word. */
  loseNextWrite(): void;
  /** Nobody answers there from then on. Happens by itself when the test has finished. */
  stop(): Promise<void>;
}

export const startDatabaseServer = async (path: string): Promise<DatabaseServer> => {
  const streams = new Map<string, SqlStream>();
  let lose = false;
  let streamCount = 0;
  const server = createServer(async (request, response) => {
    const body = (await json(request)) as PipelineRequest;
    if (lose && JSON.stringify(body).includes("BEGIN")) {
      lose = false;
      return;
    }
    const baton = body.baton ?? String(++streamCount);
    const stream = streams.get(baton) ?? new SqlStream(path);
    streams.set(baton, stream);
    const results: unknown[] = [];
    for (const one of body.requests) results.push(await stream.answer(one));
    if (stream.isClosed) streams.delete(baton);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ baton: stream.isClosed ? null : baton, base_url: null, results }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => close(server, streams);
  onTestFinished(stop);
  return {
    stop,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    loseNextWrite: () => {
      lose = true;
    },
  };
};

const close = async (server: Server, streams: Map<string, SqlStream>): Promise<void> => {
  const closed = new Promise((resolve) => server.close(resolve));
  server.closeAllConnections();
  for (const stream of streams.values()) stream.close();
  await closed;
};

type Value = { type: "null" } | { type: "integer" | "text"; value: string } | { type: "float"; value: number };

interface Statement {
  sql?: string;
  sql_id?: number;
  args: Value[];
}

type Condition = { type: "ok"; step: number } | { type: "not"; cond: Condition };

type StreamRequest =
  | { type: "close" }
  | { type: "execute"; stmt: Statement }
  | { type: "batch"; batch: { steps: { condition?: Condition; stmt: Statement }[] } }
  | { type: "store_sql"; sql_id: number; sql: string }
  | { type: "close_sql"; sql_id: number };

interface PipelineRequest {
  baton?: string;
  requests: StreamRequest[];
}

/** One connection of a client's, with its transaction. */
class SqlStream {
  readonly #client: Client;
  readonly #texts = new Map<number, string>();
  #transaction: Transaction | null = null;
  isClosed = false;

  constructor(path: string) {
    this.#client = createClient({ url: `file:${path}`, concurrency: 1, timeout: 100, intMode: "bigint" });
  }

  async answer(request: StreamRequest): Promise<unknown> {
    try {
      return { type: "ok", response: { type: request.type, ...(await this.#carryOut(request)) } };
    } catch (error) {
      return { type: "error", error: asError(error) };
    }
  }

  close(): void {
    this.#transaction?.close();
    this.#client.close();
    this.isClosed = true;
  }

  async #carryOut(request: StreamRequest): Promise<object> {
    switch (request.type) {
      case "execute":
        return { result: await this.#execute(request.stmt) };
      case "batch":
        return { result: await this.#batch(request.batch.steps) };
      case "store_sql":
        this.#texts.set(request.sql_id, request.sql);
        return {};
      case "close_sql":
        this.#texts.delete(request.sql_id);
        return {};
      case "close":
        this.close();
        return {};
    }
  }

  async #batch(steps: { condition?: Condition; stmt: Statement }[]): Promise<object> {
    const results: (object | null)[] = [];
    const errors: (object | null)[] = [];
    const holds = (condition: Condition): boolean =>
      condition.type === "ok" ? results[condition.step] !== null : !holds(condition.cond);
    for (const { condition, stmt } of steps) {
      const isWanted = condition === undefined || holds(condition);
      const result = isWanted ? await this.#execute(stmt).catch((error: unknown) => asError(error)) : null;
      const isError = result !== null && "message" in result;
      results.push(isError ? null : result);
      errors.push(isError ? result : null);
    }
    return { step_results: results, step_errors: errors };
  }

  async #execute({ sql, sql_id: id, args }: Statement): Promise<object> {
    const text = sql ?? this.#texts.get(id!)!;
    // What the driver says on its own account; on a file it must not reach it as a statement.
    if (text.startsWith("BEGIN")) this.#transaction = await this.#client.transaction("write");
    else if (text === "COMMIT") await this.#transaction?.commit();
    else if (text === "ROLLBACK") await this.#transaction?.rollback();
    else {
      const open = this.#transaction?.closed === false ? this.#transaction : this.#client;
      return asResult(await open.execute({ sql: text, args: args.map(fromValue) }));
    }
    return { cols: [], rows: [], affected_row_count: 0, last_insert_rowid: null };
  }
}

const asError = (error: unknown): { message: string; code?: string } => {
  const { message, code } = error as Error & { code?: string };
  return code === undefined ? { message } : { message, code };
};

const asResult = ({ columns, rows, rowsAffected, lastInsertRowid }: ResultSet): object => ({
  cols: columns.map((name) => ({ name })),
  rows: rows.map((row) => columns.map((_, n) => asValue(row[n]))),
  affected_row_count: rowsAffected,
  last_insert_rowid: lastInsertRowid === undefined ? null : String(lastInsertRowid),
});

const asValue = (value: unknown): Value => {
  if (value === null || value === undefined) return { type: "null" };
  if (typeof value === "bigint") return { type: "integer", value: String(value) };
  return typeof value === "number" ? { type: "float", value } : { type: "text", value: String(value) };
};

const fromValue = (value: Value): InValue => {
  if (value.type === "null") return null;
  return value.type === "integer" ? BigInt(value.value) : value.value;
};
