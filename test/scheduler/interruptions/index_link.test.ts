import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeDue, onlyStages } from "../../helpers/on_the_way.ts";
import { makeSite, postTask, startTestScheduler, taskWhen } from "../../helpers/scheduler.ts";

test.each(["0", "1"])(
  "a link in the place of the index that is kept beside a workspace leads nobody astray (exit %s)",
  async (code) => {
    const site = await makeSite();
    const precious = join(site.folder, "precious");
    await writeFile(precious, "do not touch");
    await site.hook(
      "development",
      `[ -e "$AGENT_HOOKS/tried" ] && exit 0
touch "$AGENT_HOOKS/tried"
rm -f "../.$ORCH_WORK_ITEM_ID.index"; ln -s ${precious} "../.$ORCH_WORK_ITEM_ID.index"; exit ${code}
`,
    );
    const scheduler = await startTestScheduler(site, { config: onlyStages(site, "development") });
    await postTask(scheduler, { workItemId: "ORCH-1", stage: "development" });
    await taskWhen(scheduler, "ORCH-1", ({ runs }) => (runs[0]?.outcome ?? null) !== null);
    if (code !== "0") await makeDue(scheduler);
    const { task } = await taskWhen(scheduler, "ORCH-1", ({ task }) => task.status !== "active");
    expect(task.status).toBe("done");
    expect(await readFile(precious, "utf8")).toBe("do not touch");
  },
);
