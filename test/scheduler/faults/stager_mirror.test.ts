import { rename } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeStager } from "../../stager/harness.ts";

const PLAN = "version: 1\nsteps:\n  - name: say\n    run: [echo, hello]\n";

test.each(["", "objects"])(
  "a stager whose mirror is gone (shop.git/%s) says so and gives no verdict; it does once the mirror is back",
  async (part) => {
    const stager = await makeStager({ plan: PLAN });
    const path = join(stager.mirror.gitDir, part);
    const away = `${stager.mirror.gitDir}.away`;
    await rename(path, away);
    const { result, steps } = await stager.run(1);
    expect(result).toMatchObject({ verdict: "tool_error", class: "git_ref", action: "defer", artifact: null });
    expect(result.reason).toContain(stager.mirror.gitDir);
    expect(steps).toEqual([]);
    await rename(away, path);
    expect((await stager.run(2)).result).toMatchObject({ verdict: "success", action: "advance" });
  },
);
