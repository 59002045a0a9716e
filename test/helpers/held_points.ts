import type { Points } from "@orchestrator/shared/points.ts";

/** Points at which a test can hold the code and see that it has come there. */
export class HeldPoints implements Points {
  readonly reached: string[] = [];
  readonly #held = new Map<string, { arrived: () => void; released: Promise<void> }>();

  /** Holds the next one who reaches `name`. */
  hold(name: string): { arrived: Promise<void>; release: () => void } {
    let arrived = () => {};
    let release = () => {};
    const arrival = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    this.#held.set(name, { arrived, released });
    return { arrived: arrival, release };
  }

  async reach(name: string): Promise<void> {
    this.reached.push(name);
    const held = this.#held.get(name);
    if (!held) return;
    this.#held.delete(name);
    held.arrived();
    await held.released;
  }
}
