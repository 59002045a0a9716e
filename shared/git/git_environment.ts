import { childEnvironment } from "../process/child_environment.ts";

export interface GitSurroundings {
  /** Carried by every git process, so that what a killed service left can be found and ended. */
  instanceId: string;
  /** What children may inherit from; only a few names of it are passed on. */
  parentEnv: Readonly<Record<string, string>>;
  /** The operator's own git configuration file for commands that talk to a remote; null: none. */
  networkConfig: string | null;
}

/** Who the services' own commits are by. */
export const IDENTITY = { name: "Orchestrator", email: "orchestrator@localhost" } as const;

/**
 * Settings that hold for every command, whatever a configuration file says. None of them may be left to a repository:
 * hooks, fsmonitor and `ext::` remotes start programs, and housekeeping must not run behind a command's back.
 */
const SETTINGS = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "core.attributesFile=/dev/null",
  "core.excludesFile=/dev/null",
  "core.untrackedCache=false",
  "core.quotePath=false",
  "core.autocrlf=false",
  "core.safecrlf=false",
  "protocol.ext.allow=never",
  "submodule.recurse=false",
  "fetch.recurseSubmodules=false",
  "push.recurseSubmodules=no",
  "push.followTags=false",
  "push.gpgSign=false",
  "commit.gpgSign=false",
  "gc.auto=0",
  "gc.autoDetach=false",
  "maintenance.auto=false",
  "advice.detachedHead=false",
] as const;

/** The arguments that put `SETTINGS` before a command. */
export const settingsArguments: readonly string[] = SETTINGS.flatMap((setting) => ["-c", setting]);

const LOCAL_NAMES = ["PATH", "TMPDIR", "TZ"] as const;

/**
 * The environment of one git command. A local command sees no home directory and so no configuration but its repository's;
 * one with `network` sees what a remote may need (agent socket, proxies, certificates, the operator's own file).
 */
export const gitEnvironment = (surroundings: GitSurroundings, network: boolean): Record<string, string> => {
  const { instanceId, parentEnv, networkConfig } = surroundings;
  const inherited = network
    ? childEnvironment(parentEnv, {})
    : Object.fromEntries(
        LOCAL_NAMES.flatMap((name) => (parentEnv[name] === undefined ? [] : [[name, parentEnv[name]]])),
      );
  return {
    ...inherited,
    ORCH_INSTANCE_ID: instanceId,
    LC_ALL: "C",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: (network ? networkConfig : null) ?? "/dev/null",
    GIT_ATTR_NOSYSTEM: "1",
    GIT_TERMINAL_PROMPT: "0",
    SSH_ASKPASS_REQUIRE: "never",
    GIT_NO_LAZY_FETCH: "1",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_AUTHOR_NAME: IDENTITY.name,
    GIT_AUTHOR_EMAIL: IDENTITY.email,
    GIT_COMMITTER_NAME: IDENTITY.name,
    GIT_COMMITTER_EMAIL: IDENTITY.email,
    // An operator's own file may name an ssh command with a key; this variable would win over it.
    ...(network && networkConfig === null ? { GIT_SSH_COMMAND: "ssh -o BatchMode=yes" } : {}),
  };
};
