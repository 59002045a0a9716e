const REDACTED = "[redacted]";

/** A field of such a name holds a credential, whatever its value looks like. */
const SECRET_FIELD = /(token|password|passwd|secret|authorization|cookie|api[_-]?key)$/i;

/** Credentials by their form: in an Authorization header, or in front of the host of a URL. */
const BY_FORM: readonly [pattern: RegExp, replacement: string][] = [
  [/\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{16,}/gi, `$1 ${REDACTED}`],
  [/\b(https?:\/\/)[^\s/?#@"]+@/gi, `$1${REDACTED}@`],
  [/\b([a-z][a-z0-9+.-]*:\/\/)[^\s/?#@":]*:[^\s/?#@"]*@/gi, `$1${REDACTED}@`],
];

/**
 * Makes a function that gives back a copy of a JSON value without credentials: known secrets (as they are, and as they stand
 * in quoted JSON or in a URL), fields named like one, and what has the form of one.
 */
export const createRedactor = (secrets: readonly string[]): ((value: unknown) => unknown) => {
  const redactText = createTextRedactor(secrets);

  const redact = (value: unknown): unknown => {
    if (typeof value === "string") return redactText(value);
    // A token made of digits alone may have been logged as a number.
    if (typeof value === "number") return secrets.includes(String(value)) ? REDACTED : value;
    if (Array.isArray(value)) return value.map(redact);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, field]) => [
        redactText(key),
        SECRET_FIELD.test(key) && field !== null && typeof field !== "boolean" ? REDACTED : redact(field),
      ]),
    );
  };

  return redact;
};

/**
 * Makes a function that says whether a line of JSON may hold anything that the redactor would replace. It errs on the side
 * of yes; a no spares most lines being taken apart and put together again.
 */
export const createSuspicion = (secrets: readonly string[]): ((line: string) => boolean) => {
  const known = knownForms(secrets).map((form) => JSON.stringify(form).slice(1, -1));
  return (line) =>
    known.some((form) => line.includes(form)) ||
    /bearer|basic|(token|password|passwd|secret|authorization|cookie|api[_-]?key)"/i.test(line) ||
    (line.includes("://") && line.includes("@"));
};

/** The same for text that is not JSON. */
export const createTextRedactor = (secrets: readonly string[]): ((text: string) => string) => {
  const known = knownForms(secrets);
  return (text) => {
    let clean = text;
    for (const secret of known) clean = clean.replaceAll(secret, REDACTED);
    for (const [pattern, replacement] of BY_FORM) clean = clean.replace(pattern, replacement);
    return clean;
  };
};

/** A secret as it is, as it stands in quoted JSON, and as it stands in a URL. */
const knownForms = (secrets: readonly string[]): string[] =>
  [
    ...new Set(
      secrets.filter((s) => s !== "").flatMap((s) => [s, JSON.stringify(s).slice(1, -1), encodeURIComponent(s)]),
    ),
  ]
    // A secret that holds another goes first, or its rest would stay behind.
    .sort((a, b) => b.length - a.length);
