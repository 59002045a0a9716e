import type { StagingEvent } from "@orchestrator/shared/schemas/staging_run.ts";

/**
 * How much output waits for a reader that is slower than the steps, in bytes as they are sent; what comes beyond that is
 * dropped. A single piece may be larger than that alone, since JSON writes a control character with six bytes.
 */
const MAX_WAITING_OUTPUT_BYTES = 256 * 1024;
/** One piece of the answer's body, at most about this large. */
const PIECE_BYTES = 64 * 1024;

interface Line {
  bytes: Uint8Array;
  isOutput: boolean;
}

/**
 * The answer of a run: its events, one JSON line each. Whoever reads slowly loses output, never an event, and neither holds
 * up the run nor fills the memory: only so many bytes of output wait, a line says how many were dropped, and a heartbeat is
 * not sent while other lines wait.
 */
export class EventStream {
  readonly body: ReadableStream<Uint8Array>;
  readonly #encoder = new TextEncoder();
  #waiting: Line[] = [];
  #waitingOutputBytes = 0;
  #dropped: { name: string; bytes: number } | null = null;
  #ended = false;
  #left = false;
  /** Calls for the next piece are answered by this when there is one. */
  #wake: (() => void) | null = null;

  /** @param onLeave called once when the reader goes before the end. */
  constructor(onLeave: () => void) {
    this.body = new ReadableStream<Uint8Array>(
      {
        pull: (controller) => this.#pull(controller),
        cancel: () => {
          this.#left = true;
          this.#waiting = [];
          this.#end();
          onLeave();
        },
      },
      { highWaterMark: 0 },
    );
  }

  push(event: StagingEvent): void {
    if (this.#ended) return;
    if (event.event === "heartbeat" && this.#waiting.length > 0) return;
    const line = this.#encode(event);
    if (event.event === "output") {
      const waiting = this.#waitingOutputBytes;
      if (waiting > 0 && waiting + line.byteLength > MAX_WAITING_OUTPUT_BYTES) {
        this.#drop(event.name, Buffer.byteLength(event.text));
        return;
      }
      this.#waitingOutputBytes += line.byteLength;
    }
    this.#tellDropped();
    this.#waiting.push({ bytes: line, isOutput: event.event === "output" });
    this.#wake?.();
  }

  /** Nothing comes after this: the stream ends when what waits has been read. */
  end(): void {
    this.#tellDropped();
    this.#end();
  }

  #end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  #encode(event: StagingEvent): Uint8Array {
    return this.#encoder.encode(`${JSON.stringify(event)}\n`);
  }

  #drop(name: string, bytes: number): void {
    if (this.#dropped !== null && this.#dropped.name !== name) this.#tellDropped();
    this.#dropped = { name, bytes: (this.#dropped?.bytes ?? 0) + bytes };
  }

  #tellDropped(): void {
    if (this.#dropped === null) return;
    const { name, bytes } = this.#dropped;
    this.#dropped = null;
    const text = `\n[${bytes} bytes of output were dropped here: they came faster than they were read]\n`;
    this.#waiting.push({ bytes: this.#encode({ event: "output", name, text }), isOutput: false });
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    while (this.#waiting.length === 0 && !this.#ended) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = null;
    }
    if (this.#left) return;
    if (this.#waiting.length === 0) controller.close();
    else controller.enqueue(this.#nextPiece());
  }

  #nextPiece(): Uint8Array {
    let count = 0;
    let size = 0;
    for (const { bytes, isOutput } of this.#waiting) {
      if (count > 0 && size >= PIECE_BYTES) break;
      count += 1;
      size += bytes.byteLength;
      if (isOutput) this.#waitingOutputBytes -= bytes.byteLength;
    }
    const piece = this.#waiting.splice(0, count).map(({ bytes }) => bytes);
    return Buffer.concat(piece, size);
  }
}
