import { type SnakeKeys, toSnake } from "@orchestrator/shared/case.ts";
import { problemAnswers, textAnswer } from "@orchestrator/shared/http/document.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { parseInput } from "@orchestrator/shared/http/input_errors.ts";
import { invalidInput } from "@orchestrator/shared/http/problem.ts";
import { pulledBody } from "@orchestrator/shared/http/pulled_body.ts";
import { queryParams, wholeNumber } from "@orchestrator/shared/http/query_params.ts";
import type { TaskEvent } from "@orchestrator/shared/schemas/rows.ts";
import { Hono } from "hono";
import { describeRoute } from "hono-openapi";
import * as v from "valibot";
import type { SchedulerApi } from "../scheduler_api.ts";
import { exampleEvent } from "./examples.ts";
import type { RouteDeps, Routes } from "./routes.ts";

/** So many events are in memory for one client, however far behind it is. */
const EVENTS_AT_ONCE = 50;

/** How soon a client that has lost its connection is to come back, in ms. */
const RECONNECT_MS = 1000;

const eventId = wholeNumber({ min: 0, max: 999_999_999_999_999 });
const eventsQuery = v.strictObject({
  last_event_id: v.exactOptional(
    v.pipe(eventId, v.description("As the header, which wins, for clients that cannot set one.")),
  ),
});
const eventsHeader = v.object({ "Last-Event-ID": v.exactOptional(eventId) });

export const eventRoutes: Routes = ({ api, stopping, heartbeatMs }) =>
  new Hono<HttpEnv>().get(
    "/events",
    describeRoute({
      summary: "What happens, as server-sent events: from now on, or after the last event that was seen",
      description:
        "A message's id is the event's, its name the event's kind, its data the event (see the schema Event).",
      parameters: [
        {
          in: "header",
          name: "Last-Event-ID",
          schema: { type: "integer", minimum: 0 },
          description: "The last event that was seen; 0: none, so that all come.",
          example: exampleEvent.id - 1,
        },
      ],
      responses: {
        200: textAnswer("A stream without an end.", "text/event-stream", asMessage(exampleEvent)),
        ...problemAnswers("invalid_input"),
      },
    }),
    queryParams(eventsQuery),
    async (c) => {
      const header = c.req.header("last-event-id");
      const given = parseInput(eventsHeader, header ? { "Last-Event-ID": header } : {});
      if (given.kind === "invalid") return invalidInput(given.errors);
      const seen = given.value["Last-Event-ID"] ?? c.req.valid("query").last_event_id;
      const newest = await api.events.lastId();
      // An id that there is not yet is another database's: nothing of this one was seen.
      const after = seen === undefined ? newest : Math.min(seen, newest);
      const read = (signal: AbortSignal) => messages(api.events, after, { heartbeatMs, signal });
      const onError = (error: unknown) => c.var.log.error({ err: error }, "an event stream broke off");
      return c.body(pulledBody(read, { stopping, onError }), 200, {
        "content-type": "text/event-stream; charset=utf-8",
        // Proxies that collect answers before they pass them on would hold the events back.
        "x-accel-buffering": "no",
      });
    },
  );

/** The events after an id, a comment where nothing happens for a while. */
async function* messages(
  events: SchedulerApi["events"],
  after: number,
  { heartbeatMs, signal }: Pick<RouteDeps, "heartbeatMs"> & { signal: AbortSignal },
): AsyncGenerator<Uint8Array, void> {
  const encoder = new TextEncoder();
  yield encoder.encode(`: events after ${after}\nretry: ${RECONNECT_MS}\n\n`);
  for (let seen = after; !signal.aborted; ) {
    const page = await events.after(seen, EVENTS_AT_ONCE);
    if (page.length > 0) {
      yield encoder.encode(page.map((event) => asMessage(toSnake(event))).join(""));
      seen = page.at(-1)!.id;
    } else if (!(await events.more(seen, { timeoutMs: heartbeatMs, signal })) && !signal.aborted) {
      yield encoder.encode(": nothing has happened\n\n");
    }
  }
}

/** JSON has no line break of its own, so that the data is one line. */
const asMessage = (event: SnakeKeys<TaskEvent>): string =>
  `id: ${event.id}\nevent: ${event.kind}\ndata: ${JSON.stringify(event)}\n\n`;
