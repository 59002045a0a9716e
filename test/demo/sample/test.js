import assert from "node:assert/strict";
import { once } from "node:events";
import { makeServer } from "./server.js";

/** Each check: what is asked for, and the status and answer that are right. */
const checks = [
  { path: "/", status: 200, answer: { service: "greeter" } },
  { path: "/nowhere", status: 404, answer: { error: "there is no /nowhere" } },
];

const server = makeServer({ commit: "0123abc" });
server.listen(0, "127.0.0.1");
await once(server, "listening");
try {
  for (const { path, status, answer } of checks) {
    const response = await fetch(`http://127.0.0.1:${server.address().port}${path}`);
    assert.equal(response.status, status, path);
    assert.deepEqual(await response.json(), answer, path);
    process.stdout.write(`ok - GET ${path}\n`);
  }
} finally {
  server.close();
  server.closeAllConnections();
}
