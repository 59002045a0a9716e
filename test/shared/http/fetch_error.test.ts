import { fetchErrorText } from "@orchestrator/shared/http/fetch_error.ts";
import { expect, test } from "vitest";

/** As Node has it where every address of a host was tried: the errors are inside, and the message is empty. */
const triedAll = (): Error =>
  Object.assign(new AggregateError([new Error("one"), new Error("other")]), { code: "ECONNREFUSED" });

test.each([
  ["something that is no error", "boo", "boo"],
  [
    "an error without a cause",
    new Error("error sending request for url (http://host/)"),
    "error sending request for url (http://host/)",
  ],
  [
    "a cause that says why",
    new TypeError("fetch failed", { cause: new Error("other side closed") }),
    "other side closed",
  ],
  ["a cause that has a code only", new TypeError("fetch failed", { cause: triedAll() }), "ECONNREFUSED"],
])("%s", (_, error, text) => {
  expect(fetchErrorText(error)).toBe(text);
});
