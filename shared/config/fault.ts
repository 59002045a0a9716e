import type { YamlPath } from "../read_yaml.ts";

const MAX_SHOWN = 60;

/** `found X, accepted: Y`: the form of every fault, after the key it is about. */
export const foundAccepted = (found: string, accepted: string): string => `found ${found}, accepted: ${accepted}`;

/** What was there, on one line and cut where it is long. Lists and mappings by their kind alone. */
export const showValue = (value: unknown): string => {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (typeof value !== "string") return showKindOnly(value);
  return JSON.stringify(value.length <= MAX_SHOWN ? value : `${value.slice(0, MAX_SHOWN)}…`);
};

/** The same for what may hold a secret: its kind, never its content. */
export const showKindOnly = (value: unknown): string => {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  switch (typeof value) {
    case "string":
      return value === "" ? "an empty text" : "a text (not shown here)";
    case "object":
      return "a mapping";
    default:
      return `a ${typeof value}`;
  }
};

/** A path as people write it: `pipeline.stages[2].gate.on_fail`. */
export const showPath = (path: YamlPath): string =>
  path
    .map((key, index) => {
      if (typeof key === "number") return `[${key}]`;
      if (!/^[\w-]+$/.test(key)) return `[${JSON.stringify(key)}]`;
      return index === 0 ? key : `.${key}`;
    })
    .join("");
