import { lookup } from "node:dns/promises";
import { dirname } from "node:path";
import { childEnvironment } from "@orchestrator/shared/process/child_environment.ts";
import { ToolError } from "@orchestrator/shared/tool_error.ts";
import { findCommand } from "../scheduler/command.ts";
import type { Check } from "./checks.ts";
import { fail, ok, warn } from "./finding.ts";

/** Whether notifications have somewhere to go. None is sent. */
export const checkNotify: Check = async ({ config }) => {
  const { notify, parentEnv, configPath } = config;
  if (notify === null) return [ok("notify", "nobody is notified (notify is not set)")];
  const { target, on } = notify;
  if (target.kind === "command") {
    try {
      const { PATH } = childEnvironment(parentEnv, {});
      const file = await findCommand(target.command[0], dirname(configPath), PATH);
      return [ok("notify", `${file} is run on ${on.join(", ")}`)];
    } catch (error) {
      if (error instanceof ToolError) return [fail("notify", error.message, null)];
      throw error;
    }
  }
  // Whoever knows the path of such a URL may often post there: it is shown nowhere.
  const { origin, hostname } = new URL(target.url);
  try {
    await lookup(hostname.replace(/^\[|\]$/g, ""));
    return [ok("notify", `${origin} is told of ${on.join(", ")} (not tried)`)];
  } catch (error) {
    return [
      warn(
        "notify",
        `the name ${hostname} cannot be resolved (${(error as Error).message})`,
        "correct notify.url, or the machine's DNS",
      ),
    ];
  }
};
