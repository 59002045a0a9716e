import { Hono } from "hono";
import {
  type DescribeRouteOptions,
  describeRoute,
  type GenerateSpecOptions,
  openAPIRouteHandler,
  resolver,
} from "hono-openapi";
import type { HttpEnv } from "./env.ts";
import { problemSchema } from "./problem.ts";

type Components = NonNullable<GenerateSpecOptions["documentation"]["components"]>;

export interface OpenApiOptions {
  /** The app whose routes are documented. */
  app: Hono<HttpEnv>;
  title: string;
  description: string;
  /** How a client shows its token; empty where none is asked for. */
  securitySchemes: NonNullable<Components["securitySchemes"]>;
}

/** What every route may answer with besides its own answers: no token, a foreign Host, a failure inside. */
const ANY_OTHER: DescribeRouteOptions = {
  responses: {
    default: {
      description: "Any other error: see its `code`.",
      content: { "application/problem+json": { schema: resolver(problemSchema) } },
    },
  },
};

const SELF = {
  description: "OpenAPI 3.1.",
  content: { "application/json": { schema: { type: "object" as const }, example: { openapi: "3.1.0" } } },
};

/** `GET /openapi.json`: OpenAPI 3.1, made from the schemas that validate. */
export const openapiRoute = ({ app, title, description, securitySchemes }: OpenApiOptions): Hono<HttpEnv> =>
  new Hono<HttpEnv>().get(
    "/openapi.json",
    describeRoute({ summary: "This document", responses: { 200: SELF } }),
    openAPIRouteHandler(app, {
      documentation: {
        info: { title, description, version: "1" },
        security: Object.keys(securitySchemes).map((name) => ({ [name]: [] })),
        components: { securitySchemes },
      },
      defaultOptions: { GET: ANY_OTHER, POST: ANY_OTHER },
      excludeStaticFile: false,
      // The validation here answers 422 and documents it itself.
      defaultValidationErrorResponse: false,
    }),
  );
