/** Something that the configuration names, or that the services need, cannot be used: which, what was found, what to do. */
export class UnusableError extends Error {
  readonly code = "unusable";

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "UnusableError";
  }
}
