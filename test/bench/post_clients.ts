import { connect } from "node:net";

// Posts tasks from many connections at once, each waiting for its answer before it posts again, and prints how many were
// answered with 201 in the time given. Speaks HTTP by hand: the clients must not be what is measured.
// Arguments: port, number of clients, ms to warm up, ms to measure, prefix of the work item ids.

const [port = 0, clients = 0, warmUpMs = 0, measureMs = 0] = process.argv.slice(2, 6).map(Number);
const prefix = process.argv[6] ?? "POST";
const description = "text ".repeat(40);

let posted = 0;
let answered = 0;
let done = false;

const nextRequest = (): string => {
  const body = JSON.stringify({ work_item_id: `${prefix}-${++posted}`, title: "A title", description, repo: "shop" });
  return (
    `POST /tasks HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: application/json\r\n` +
    `content-length: ${body.length}\r\n\r\n${body}`
  );
};

/** One client: posts, waits for the whole answer, posts again. Resolves when the time is over. */
const client = (): Promise<void> =>
  new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(nextRequest()));
    let received = "";
    socket.setNoDelay(true);
    socket.setEncoding("utf8");
    socket.on("error", reject);
    socket.on("data", (text: string) => {
      received += text;
      const headEnd = received.indexOf("\r\n\r\n");
      const length = /content-length: (\d+)/i.exec(received);
      if (headEnd === -1 || length === null || received.length < headEnd + 4 + Number(length[1])) return;
      if (!received.startsWith("HTTP/1.1 201 ")) {
        reject(new Error(`a post was answered with: ${received}`));
        socket.destroy();
        return;
      }
      received = "";
      answered += 1;
      if (!done) {
        socket.write(nextRequest());
        return;
      }
      socket.end();
      resolve();
    });
  });

const all = Promise.all(Array.from({ length: clients }, client));
all.catch((error: unknown) => {
  process.stderr.write(`${error}\n`);
  process.exit(1);
});
await new Promise((resolve) => setTimeout(resolve, warmUpMs));
const answeredBefore = answered;
const began = performance.now();
await new Promise((resolve) => setTimeout(resolve, measureMs));
const seconds = (performance.now() - began) / 1000;
const perSecond = (answered - answeredBefore) / seconds;
done = true;
await all;
process.stdout.write(JSON.stringify({ perSecond, answered }));
