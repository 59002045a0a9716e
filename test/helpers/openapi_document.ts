import { Ajv2020 } from "ajv/dist/2020.js";
import formatsPlugin from "ajv-formats";

interface MediaType {
  schema?: object;
  example?: unknown;
  examples?: Record<string, { value: unknown }>;
}
export type Content = Record<string, MediaType>;

export interface Operation {
  summary: string;
  security?: unknown[];
  parameters?: { in: string; name: string; required?: boolean; schema: object; example?: unknown }[];
  requestBody?: { required: boolean; content: Content };
  responses: Record<string, { description: string; content?: Content }>;
}

export interface OpenApi {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object> };
}

/** An API's document as its callers read it, and what they check against it. */
export class ApiDocument {
  readonly document: OpenApi;
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true });

  constructor(document: OpenApi) {
    this.document = document;
    // The plugin's module is CommonJS, whose default export types and runtimes see differently.
    const addFormats = formatsPlugin as unknown as typeof formatsPlugin.default;
    addFormats(this.#ajv);
    this.#ajv.addSchema(closed(document) as object, "api");
  }

  /** Every operation, named as `POST /tasks/{task}/retry`. */
  operations(): [name: string, operation: Operation][] {
    return Object.entries(this.document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]): [string, Operation] => [
        `${method.toUpperCase()} ${path}`,
        operation,
      ]),
    );
  }

  operation(name: string): Operation {
    const found = this.operations().find(([other]) => other === name)?.[1];
    if (!found) throw new Error(`${name} is not documented`);
    return found;
  }

  /** What a value has against a place in the document where a schema stands; empty where it is as documented. */
  faults(value: unknown, ...place: string[]): string[] {
    const pointer = place.map((part) => part.replaceAll("~", "~0").replaceAll("/", "~1")).map(encodeURIComponent);
    const validate = this.#ajv.compile({ $ref: `api#/${pointer.join("/")}` });
    if (validate(value)) return [];
    return (validate.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  }

  /** What an answer has against its documentation. */
  async answerFaults(name: string, answer: Response): Promise<string[]> {
    const { responses } = this.operation(name);
    const status = String(answer.status) in responses ? String(answer.status) : "default";
    const media = answer.headers.get("content-type")!.split(";")[0]!;
    if (responses[status]?.content?.[media] === undefined) return [`${name} answers ${answer.status} with ${media}`];
    const [method, path] = name.split(" ") as [string, string];
    const value = media.endsWith("json") ? await answer.json() : await answer.text();
    return this.faults(value, "paths", path, method.toLowerCase(), "responses", status, "content", media, "schema");
  }
}

/** The same document, whose objects may hold nothing but what is documented. */
const closed = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== "object" || value === null) return value;
  const copy = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, closed(inner)]));
  const isObject = copy["type"] === "object" && "properties" in copy && !("additionalProperties" in copy);
  return isObject ? { ...copy, additionalProperties: false } : copy;
};
