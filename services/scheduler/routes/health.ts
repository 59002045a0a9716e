import { jsonAnswer, OPEN } from "@orchestrator/shared/http/document.ts";
import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { Hono } from "hono";
import { describeRoute } from "hono-openapi";
import * as v from "valibot";
import type { Routes } from "./routes.ts";

const aliveSchema = v.object({ status: v.literal("ok") });
const readinessSchema = v.object({ ready: v.boolean(), reasons: v.array(v.string()) });

export const healthRoutes: Routes = ({ api }) =>
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
        summary: "Is the lock held, the database writable and the dispatcher running?",
        ...OPEN,
        responses: {
          200: jsonAnswer("Ready.", readinessSchema, { ready: true, reasons: [] }),
          503: jsonAnswer("Not ready, and why.", readinessSchema, {
            ready: false,
            reasons: ["the dispatcher is not running"],
          }),
        },
      }),
      async (c) => {
        const { ready, reasons } = await api.readiness();
        return c.json({ ready, reasons }, ready ? 200 : 503);
      },
    );
