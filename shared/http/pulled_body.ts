export interface PulledBodyOptions {
  /** Ends the body, between two chunks, when the service stops. */
  stopping: AbortSignal;
  /** Told of what broke the body off; the client sees its connection cut. */
  onError: (error: unknown) => void;
}

/**
 * A body that is made while it is sent: each chunk is asked for when the one before has been taken, so that a client that
 * does not read costs one chunk and no work. Nothing is begun before the first chunk is asked for.
 * @param begin is given a signal that is aborted when the client has gone or the service stops
 */
export const pulledBody = (
  begin: (signal: AbortSignal) => AsyncGenerator<Uint8Array, void>,
  { stopping, onError }: PulledBodyOptions,
): ReadableStream<Uint8Array> => {
  const over = new AbortController();
  const end = (): void => over.abort();
  let gone = false;
  let chunks: AsyncGenerator<Uint8Array, void> | null = null;
  const start = (): AsyncGenerator<Uint8Array, void> => {
    if (stopping.aborted) end();
    stopping.addEventListener("abort", end, { once: true });
    return begin(over.signal);
  };
  const finish = (): void => {
    end();
    stopping.removeEventListener("abort", end);
  };
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          chunks ??= start();
          const { done, value } = await chunks.next();
          // The client has gone meanwhile: there is nobody to give it to, and nothing to close.
          if (gone) return;
          if (!done) return controller.enqueue(value);
          finish();
          controller.close();
        } catch (error) {
          finish();
          if (gone) return;
          onError(error);
          throw error;
        }
      },
      async cancel() {
        gone = true;
        finish();
        await chunks?.return();
      },
    },
    { highWaterMark: 0 },
  );
};
