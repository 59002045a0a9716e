import { foundAccepted, showKindOnly, showValue } from "./fault.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads single variables and gathers what is wrong with them. A variable that is set to nothing counts as not set: that is
 * what `${NAME:-}` in a compose file gives.
 */
export class Variables {
  readonly faults: string[] = [];
  readonly #env: Environment;

  constructor(env: Environment) {
    this.#env = env;
  }

  /** Adds a fault about a variable; `text` is what stands after its name. */
  fault(name: string, text: string): void {
    this.faults.push(`${name}: ${text}`);
  }

  get(name: string): string | null {
    const value = Object.hasOwn(this.#env, name) ? this.#env[name] : undefined;
    return value === undefined || value === "" ? null : value;
  }

  /** A whole number in plain decimal digits: no sign, blank, exponent, fraction or leading zero. Null where it is not set. */
  wholeOrNull(name: string, min: number, max: number): number | null {
    const value = this.get(name);
    if (value === null) return null;
    const number = /^(?:0|[1-9][0-9]{0,15})$/.test(value) ? Number(value) : Number.NaN;
    if (number >= min && number <= max) return number;
    this.fault(name, foundAccepted(showValue(value), `a whole number from ${min} to ${max}`));
    return null;
  }

  whole(name: string, fallback: number, min: number, max: number): number {
    return this.wholeOrNull(name, min, max) ?? fallback;
  }

  flag(name: string, fallback: boolean): boolean {
    return this.choice(name, fallback ? "true" : "false", ["true", "false"]) === "true";
  }

  choice<const T extends string>(name: string, fallback: NoInfer<T>, words: readonly T[]): T {
    const value = this.get(name);
    if (value === null) return fallback;
    const word = words.find((candidate) => candidate === value);
    if (word === undefined) this.fault(name, foundAccepted(showValue(value), `one of ${words.join(", ")}`));
    return word ?? fallback;
  }

  /** Text that `isAccepted`; a value that is not is shown in the fault. */
  text(name: string, fallback: string, accepted: string, isAccepted: (value: string) => boolean): string {
    const value = this.get(name);
    if (value === null || isAccepted(value)) return value ?? fallback;
    this.fault(name, foundAccepted(showValue(value), accepted));
    return fallback;
  }

  /** The same for a value that may hold a secret: it is never shown. */
  secret(name: string, accepted: string, isAccepted: (value: string) => boolean): string | null {
    const value = this.get(name);
    if (value === null || isAccepted(value)) return value;
    this.fault(name, foundAccepted(showKindOnly(value), accepted));
    return null;
  }
}
