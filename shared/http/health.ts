import { Hono } from "hono";
import { describeRoute } from "hono-openapi";
import * as v from "valibot";
import { jsonAnswer, OPEN } from "./document.ts";
import type { HttpEnv } from "./env.ts";

/** What probes and monitors read of a service without a token. */
export const OPEN_PATHS: readonly string[] = ["/queue", "/healthz", "/readyz"];

export interface HealthOptions {
  /** What `/readyz` finds out, as the question that the document puts it as. */
  question: string;
  /** A reason for not being ready, as the document's example. */
  exampleReason: string;
  /** Why the service cannot do its work now; empty where it can. */
  reasons: () => Promise<string[]>;
}

const aliveSchema = v.object({ status: v.literal("ok") });
const readinessSchema = v.object({ ready: v.boolean(), reasons: v.array(v.string()) });

/** `GET /healthz`, which is answered for as long as the process is alive, and `GET /readyz`: 200, or 503 with the reasons. */
export const healthRoutes = ({ question, exampleReason, reasons }: HealthOptions): Hono<HttpEnv> =>
  new Hono<HttpEnv>()
    .get(
      "/healthz",
      describeRoute({
        summary: "Is the process alive?",
        ...OPEN,
        responses: { 200: jsonAnswer("It is.", aliveSchema, { status: "ok" }) },
      }),
      (c) => c.json({ status: "ok" }),
    )
    .get(
      "/readyz",
      describeRoute({
        summary: question,
        ...OPEN,
        responses: {
          200: jsonAnswer("Ready.", readinessSchema, { ready: true, reasons: [] }),
          503: jsonAnswer("Not ready, and why.", readinessSchema, { ready: false, reasons: [exampleReason] }),
        },
      }),
      async (c) => {
        const found = await reasons();
        const ready = found.length === 0;
        return c.json({ ready, reasons: found }, ready ? 200 : 503);
      },
    );
