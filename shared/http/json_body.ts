import type { Context, MiddlewareHandler } from "hono";
import { resolver, uniqueSymbol } from "hono-openapi";
import type * as v from "valibot";
import type { HttpEnv } from "./env.ts";
import { parseInput } from "./input_errors.ts";
import { invalidInput, problem } from "./problem.ts";

export const MAX_BODY_BYTES = 1024 * 1024;

export interface JsonBodyOptions {
  /** A body that is accepted, for the document. */
  example?: unknown;
  /** True: a request without a body is one with an empty object. Default false. */
  optional?: boolean;
}

/**
 * Reads a JSON body of at most 1 MiB and validates it: 413, 415, 400 `malformed_json` or 422 `invalid_input` where it is not
 * accepted, else the handler finds it as `c.req.valid("json")`. The same schema stands in the OpenAPI document.
 */
export const jsonBody = <S extends v.GenericSchema>(schema: S, { example, optional = false }: JsonBodyOptions = {}) => {
  const jsonBody: MiddlewareHandler<
    HttpEnv,
    string,
    { in: { json: v.InferInput<S> }; out: { json: v.InferOutput<S> } }
  > = async (c, next) => {
    const body = await readJson(c.req.raw, c, optional);
    if (body.kind === "refused") return body.response;
    // Every body here is an object, and to a schema whose fields are all optional a list would be one too.
    if (Array.isArray(body.value)) return invalidInput([{ path: "", message: "must be a JSON object" }]);
    const input = parseInput(schema, body.value);
    if (input.kind === "invalid") return invalidInput(input.errors);
    c.req.addValidatedData("json", input.value as object);
    return next();
  };
  const content = { "application/json": { schema: resolver(schema), example } };
  return Object.assign(jsonBody, { [uniqueSymbol]: { spec: { requestBody: { required: !optional, content } } } });
};

type JsonReading = { kind: "json"; value: unknown } | { kind: "refused"; response: Response };

const readJson = async (request: Request, c: Context<HttpEnv>, optional: boolean): Promise<JsonReading> => {
  const refuse = (response: Response): JsonReading => ({ kind: "refused", response });
  const tooLarge = () =>
    refuse(
      problem("body_too_large", `The body may have at most ${MAX_BODY_BYTES} bytes.`, {
        // The rest of the body is not read, so the connection serves no further request.
        headers: { connection: "close" },
      }),
    );

  if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY_BYTES) return tooLarge();
  if (optional && !request.headers.has("content-type")) {
    const bytes = await readAtMost(request, MAX_BODY_BYTES);
    if (bytes === null) return tooLarge();
    if (bytes.length === 0) return { kind: "json", value: {} };
  }
  const mediaType = (request.headers.get("content-type") ?? "").split(";")[0]!.trim();
  if (!/^application\/([\w.-]+\+)?json$/i.test(mediaType)) {
    return refuse(problem("unsupported_media_type", "Send the body as JSON, with Content-Type: application/json."));
  }
  if (!/^(identity)?$/i.test(request.headers.get("content-encoding") ?? "")) {
    return refuse(problem("unsupported_media_type", "Send the body as it is, without Content-Encoding."));
  }

  const bytes = await readAtMost(request, MAX_BODY_BYTES);
  if (bytes === null) return tooLarge();
  if (optional && bytes.length === 0) return { kind: "json", value: {} };
  try {
    return { kind: "json", value: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) };
  } catch (error) {
    // The parser's own message quotes the input.
    c.var.log.debug({ error_name: (error as Error).name }, "body is not JSON");
    return refuse(problem("malformed_json", "The body is not JSON in UTF-8."));
  }
};

/** The whole body, or null as soon as it is longer than `limit`. */
const readAtMost = async (request: Request, limit: number): Promise<Uint8Array | null> => {
  const { headers } = request;
  if (headers.has("content-length") && !headers.has("transfer-encoding")) {
    // No more comes than was announced, which has been found short enough. Read whole, it needs none of the streams that
    // cost the Node adapter more than all the rest of a request.
    const whole = new Uint8Array(await request.arrayBuffer());
    return whole.length > limit ? null : whole;
  }
  const { body } = request;
  if (body === null) return new Uint8Array();
  const reader = body.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > limit) {
      await reader.cancel();
      return null;
    }
    chunks.push(value);
  }
  const whole = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    whole.set(chunk, offset);
    offset += chunk.length;
  }
  return whole;
};
