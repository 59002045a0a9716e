import type { HttpEnv } from "@orchestrator/shared/http/env.ts";
import { Hono } from "hono";
import { describeRoute, openAPIRouteHandler } from "hono-openapi";

export interface OpenApiOptions {
  /** The app whose routes are documented. */
  app: Hono<HttpEnv>;
  /** Whether its routes ask for a token. */
  secured: boolean;
}

/** `GET /openapi.json`: OpenAPI 3.1, made from the schemas that validate. */
export const openapiRoutes = ({ app, secured }: OpenApiOptions): Hono<HttpEnv> =>
  new Hono<HttpEnv>().get(
    "/openapi.json",
    describeRoute({ summary: "This document", responses: { 200: { description: "OpenAPI 3.1" } } }),
    openAPIRouteHandler(app, {
      documentation: {
        info: {
          title: "Orchestrator: scheduler",
          description: "Takes work items through a delivery pipeline. Errors are RFC 9457 problems with a `code`.",
          version: "1",
        },
        security: secured ? [{ bearer: [] }, { basic: [] }] : [],
        components: {
          securitySchemes: {
            bearer: { type: "http", scheme: "bearer" },
            basic: { type: "http", scheme: "basic", description: "The token as the password; any user name." },
          },
        },
      },
      excludeStaticFile: false,
      // The validation here answers 422 and documents it itself.
      defaultValidationErrorResponse: false,
    }),
  );
