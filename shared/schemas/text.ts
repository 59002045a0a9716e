import * as v from "valibot";

/**
 * Text that can be kept: the driver cuts text at NUL when it reads, and other control characters have no business in a
 * title, a prompt or a terminal. Newline and tab stay.
 */
export const cleanText = (maxLength: number) =>
  v.pipe(
    v.string(),
    v.maxLength(maxLength),
    v.regex(
      /^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f]*$/,
      "must not hold control characters other than newline and tab",
    ),
    v.check((text) => text.isWellFormed(), "must be well-formed Unicode"),
  );

export const id = v.pipe(v.number(), v.integer(), v.minValue(1));
export const time = v.pipe(v.string(), v.isoTimestamp());
export const count = v.pipe(v.number(), v.integer(), v.minValue(0));

/** `^[A-Za-z][A-Za-z0-9._-]{0,63}$`, no `..`, not ending in `.` or `.lock`: it becomes a path, a ref and an environment value. */
export const workItemId = v.pipe(
  v.string(),
  v.regex(/^[A-Za-z][A-Za-z0-9._-]{0,63}$/, "must match ^[A-Za-z][A-Za-z0-9._-]{0,63}$"),
  v.check((value) => !value.includes(".."), "must not hold '..'"),
  v.check((value) => !value.endsWith(".") && !value.endsWith(".lock"), "must not end in '.' or '.lock'"),
);
