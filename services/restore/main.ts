import { runTar } from "../backup/run_tar.ts";
import { runTool } from "../backup/run_tool.ts";
import { restoreBackup } from "./restore_backup.ts";

// `npm run --silent restore < backup.tar`: what a backup holds, into the folders that the environment names. No scheduler may
// run there, and there must be no database yet.
await runTool({
  stream: {
    fd: 0,
    usage: "the backup is read from standard input, as in `npm run --silent restore < backup.tar`",
  },
  configMayBeMissing: true,
  work: (work) =>
    restoreBackup(work, (folder) =>
      runTar(["-x", "--no-same-owner", "-C", folder], {
        stdio: ["inherit", "ignore", "inherit"],
        signal: work.signal,
        failure: { found: "what standard input gave is no whole backup", todo: "begin again with one that is" },
      }),
    ),
  interrupted: "no database was put in place; begin again with the same backup",
});
