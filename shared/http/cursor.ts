import * as v from "valibot";

/** The `next_cursor` of a list: says after which row the next page begins, in a form that nobody takes apart. */
export const encodeCursor = (afterId: number): string => Buffer.from(`after ${afterId}`).toString("base64url");

/** The id in a cursor, or null where the text is none that `encodeCursor` makes. */
export const decodeCursor = (cursor: string): number | null => {
  const afterId = Number(/^after (\d{1,15})$/.exec(Buffer.from(cursor, "base64url").toString())?.[1] ?? Number.NaN);
  return encodeCursor(afterId) === cursor ? afterId : null;
};

/** The query parameter `cursor`; the handler finds the id. */
export const cursorParam = v.pipe(
  v.string(),
  v.check((cursor) => decodeCursor(cursor) !== null, "must be a next_cursor that this list has answered with"),
  v.transform((cursor) => decodeCursor(cursor)!),
);
