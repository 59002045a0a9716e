/** The end of an output of any length, in bounded memory; bytes are kept as they came. */
export class Tail {
  readonly #limit: number;
  #chunks: Uint8Array[] = [];
  #kept = 0;
  #total = 0;

  /** @param limit how many bytes are kept at most. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  append(chunk: Uint8Array): void {
    this.#total += chunk.byteLength;
    // A copy: a chunk may be a view of a far larger buffer, which it would keep alive.
    this.#chunks.push(Uint8Array.from(chunk.subarray(Math.max(0, chunk.byteLength - this.#limit))));
    this.#kept += this.#chunks.at(-1)!.byteLength;
    while (this.#kept - this.#chunks[0]!.byteLength >= this.#limit) this.#kept -= this.#chunks.shift()!.byteLength;
    // Many small chunks cost more than what they hold.
    if (this.#chunks.length > 1000) this.#chunks = [joined(this.#chunks)];
  }

  /** How many bytes were appended. */
  get total(): number {
    return this.#total;
  }

  /** The last bytes, at most the limit. */
  bytes(): Uint8Array {
    const all = joined(this.#chunks);
    return all.subarray(Math.max(0, all.byteLength - this.#limit));
  }

  /** The same as UTF-8; what is left of a character that was cut in two shows as U+FFFD. */
  text(): string {
    return Buffer.from(this.bytes()).toString("utf8");
  }
}

const joined = (chunks: readonly Uint8Array[]): Uint8Array => {
  const all = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0));
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.byteLength;
  }
  return all;
};
