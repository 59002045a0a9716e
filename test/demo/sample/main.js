import { makeServer } from "./server.js";

const port = Number(process.env.APP_PORT);
const server = makeServer({ commit: process.env.ORCH_COMMIT ?? "unknown" });
server.listen(port, "127.0.0.1", () => process.stdout.write(`listening on ${server.address().port}\n`));
