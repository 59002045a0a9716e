import { createClient } from "@libsql/client";

// Reads the file as another program would, and prints the work item ids that are in it.
const [path] = process.argv.slice(2);
const client = createClient({ url: `file:${path}`, concurrency: 1, timeout: 10_000 });
const { rows } = await client.execute("SELECT work_item_id FROM tasks ORDER BY id");
process.stdout.write(JSON.stringify(rows.map((row) => row["work_item_id"])));
client.close();
