import type { Context } from "hono";
import { accepts } from "hono/accepts";
import { type DescribeRouteOptions, resolver } from "hono-openapi";
import * as v from "valibot";

/** What the query of `GET /queue` may hold. */
export const queueQuerySchema = v.strictObject({ format: v.exactOptional(v.picklist(["json", "prometheus"])) });

const TYPES = ["application/json", "text/plain", "application/openmetrics-text"];

/**
 * Whether `GET /queue` is to answer in the Prometheus text format. `format` in the query decides; without it the Accept header
 * does, and who does not care gets JSON. Prometheus asks for OpenMetrics first and takes the text format as well.
 */
export const wantsPrometheus = (c: Context, { format }: v.InferOutput<typeof queueQuerySchema>): boolean =>
  format === undefined
    ? accepts(c, { header: "Accept", supports: TYPES, default: "application/json" }) !== "application/json"
    : format === "prometheus";

/** The answer that holds `text`, which is in the Prometheus text format. */
export const prometheusAnswer = (text: string): Response =>
  new Response(text, { headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8", vary: "accept" } });

/** Documents an answer that comes as JSON or in the Prometheus text format. */
export const queueAnswer = (
  schema: v.GenericSchema,
  examples: { json: unknown; text: string },
): NonNullable<DescribeRouteOptions["responses"]>[string] => ({
  description: "The state of this moment, as JSON or, for Prometheus, in its text format.",
  content: {
    "application/json": { schema: resolver(schema), example: examples.json },
    "text/plain": { schema: { type: "string" }, example: examples.text },
  },
});
