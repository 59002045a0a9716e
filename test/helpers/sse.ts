export interface SseMessage {
  id: number;
  event: string;
  data: unknown;
}

/** Reads server-sent events one by one; comments are passed over, but counted. */
export class SseReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #text = "";
  /** Comments that stood alone, so far. */
  comments = 0;

  constructor(answer: Response) {
    this.#reader = answer.body!.getReader();
  }

  /** The next message; null at the end of the stream. */
  async next(): Promise<SseMessage | null> {
    for (;;) {
      const end = this.#text.indexOf("\n\n");
      if (end !== -1) {
        const block = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        const message = parse(block);
        if (message !== null) return message;
        this.comments += 1;
        continue;
      }
      const { done, value } = await this.#reader.read();
      if (done) return null;
      this.#text += this.#decoder.decode(value, { stream: true });
    }
  }

  async take(n: number): Promise<SseMessage[]> {
    const found: SseMessage[] = [];
    while (found.length < n) {
      const message = await this.next();
      if (message === null) throw new Error(`the stream ended after ${found.length} of ${n} messages`);
      found.push(message);
    }
    return found;
  }

  /** Reads one chunk, whatever it holds. */
  async chunk(): Promise<void> {
    const { value } = await this.#reader.read();
    this.#text += this.#decoder.decode(value, { stream: true });
  }

  leave(): Promise<void> {
    return this.#reader.cancel();
  }
}

const parse = (block: string): SseMessage | null => {
  const fields = block.split("\n").filter((line) => !line.startsWith(":"));
  const value = (name: string): string | undefined =>
    fields.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
  const data = value("data");
  return data === undefined ? null : { id: Number(value("id")), event: value("event") ?? "", data: JSON.parse(data) };
};
