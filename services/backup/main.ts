import { gatherBackup } from "./gather_backup.ts";
import { runTar } from "./run_tar.ts";
import { runTool } from "./run_tool.ts";

// `npm run --silent backup > backup.tar`: database, mirrors, configuration and tokens of a scheduler that may go on working.
await runTool({
  stream: {
    fd: 1,
    usage:
      "the backup is a tar file on standard output: send it into one, as in `npm run --silent backup > backup.tar`",
  },
  work: (work) =>
    gatherBackup(work, (folder) =>
      runTar(["-c", "-C", folder, "."], {
        stdio: ["ignore", "inherit", "inherit"],
        signal: work.signal,
        failure: { found: "the backup could not be written", todo: "make another where it can be" },
      }),
    ),
  interrupted: "what was written is no backup; make another",
});
