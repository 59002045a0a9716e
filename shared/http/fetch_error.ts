/**
 * Why a fetch failed, in words. Node puts the reason into `cause`, which has no message of its own where several addresses
 * were tried; Deno puts it into the message, with the URL.
 */
export const fetchErrorText = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (!(cause instanceof Error)) return error.message;
  return cause.message || (cause as NodeJS.ErrnoException).code || error.message;
};
