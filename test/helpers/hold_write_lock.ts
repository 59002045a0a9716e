import { createClient } from "@libsql/client";

// A foreign program that takes the database's write lock and holds it for as long as it is told to.
const [path, holdMs] = process.argv.slice(2);
const client = createClient({ url: `file:${path}`, concurrency: 1, timeout: 10_000 });
const transaction = await client.transaction("write");
process.stdout.write("locked\n");
await new Promise((resolve) => setTimeout(resolve, Number(holdMs)));
await transaction.rollback();
client.close();
