import type { Act } from "./act.ts";
import { approve, cancel, create, pause, resume, retry, sendBack } from "./acts_of_people.ts";
import { claim, die, exit, finalize, hold, output, settle, start, vanish } from "./acts_of_runs.ts";
import { pass, passUntilDue, restart, setClock, shutDown, sweep, takeOver, zombie } from "./acts_of_schedulers.ts";
import type { Model } from "./model.ts";
import type { Step } from "./step.ts";

/** Chooses what the step is done to. @returns null where it cannot be done now. Changes nothing. */
export const prepare = (model: Model, step: Exclude<Step, { do: "together" }>): Act | null => {
  switch (step.do) {
    case "create":
      return create(model, step);
    case "claim":
      return claim(model);
    case "start":
      return start(model, step);
    case "output":
      return output(model, step);
    case "exit":
      return exit(model, step);
    case "vanish":
      return vanish(model, step);
    case "finalize":
      return finalize(model, step);
    case "hold":
      return hold(model, step);
    case "settle":
      return settle(model, step);
    case "die":
      return die(model, step);
    case "sweep":
      return sweep(model);
    case "pass":
      return pass(step);
    case "pass_until_due":
      return passUntilDue(model);
    case "set_clock":
      return setClock(step);
    case "cancel":
      return cancel(model, step);
    case "retry":
      return retry(model, step);
    case "approve":
      return approve(model, step);
    case "return":
      return sendBack(model, step);
    case "pause":
      return pause(model, step);
    case "resume":
      return resume(model, step);
    case "shut_down":
      return shutDown(model);
    case "restart":
      return restart(model, step);
    case "take_over":
      return takeOver(model);
    case "zombie":
      return zombie(model, step);
  }
};
