/** Something that the configuration names, or that the services need, cannot be used. */
export class UnusableError extends Error {
  readonly code = "unusable";
  /** Which, and what is wrong with it. */
  readonly found: string;
  readonly todo: string;

  constructor(found: string, todo: string, options?: ErrorOptions) {
    super(`${found}: ${todo}`, options);
    this.name = "UnusableError";
    this.found = found;
    this.todo = todo;
  }
}
