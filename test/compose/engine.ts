import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The checkout, which is what is built. */
export const CHECKOUT = fileURLToPath(new URL("../..", import.meta.url));

/** Apart from whatever else runs on this machine, but for the scheduler's container, whose name is fixed. */
export const PROJECT = "orchestrator-test";
export const SCHEDULER = "orchestrator-scheduler";
export const API_PORT = 18_080;
export const PROMETHEUS_PORT = 19_090;

const ENVIRONMENT = {
  COMPOSE_PROJECT_NAME: PROJECT,
  ORCH_VERSION: "test",
  SCHEDULER_PORT: String(API_PORT),
  PROMETHEUS_PORT: String(PROMETHEUS_PORT),
  PROMETHEUS_VERSION: "debian",
  // Builds reach package mirrors as this machine does.
  BUILD_NETWORK: "host",
  SCHEDULER_MEMORY: "1g",
};

export interface RunOptions {
  input?: string;
  env?: Record<string, string>;
  /** Default 2 min. */
  timeoutMs?: number;
  /** Shows what is printed as it comes. */
  shown?: boolean;
  /** Answers with any exit code instead of throwing for one that is not 0. */
  anyCode?: boolean;
}

export interface Ran {
  code: number | null;
  /** Both outputs, as they came. */
  output: string;
  stdout: string;
}

/** Runs a program and answers with what it printed. @throws where it ends with another code than 0, or too late. */
export const run = (program: string, args: readonly string[], options: RunOptions = {}): Promise<Ran> =>
  new Promise((resolve, reject) => {
    const { input, env, timeoutMs = 120_000, shown = false, anyCode = false } = options;
    const child = spawn(program, args, {
      cwd: CHECKOUT,
      env: { ...process.env, ...ENVIRONMENT, ...env },
      stdio: ["pipe", "pipe", "pipe"],
      timeout: timeoutMs,
      killSignal: "SIGKILL",
    });
    let output = "";
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
      output += text;
      if (shown) process.stdout.write(text);
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      if (shown) process.stdout.write(text);
    });
    child.stdin.on("error", () => {});
    child.stdin.end(input ?? "");
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0 || (anyCode && code !== null)) resolve({ code, output, stdout });
      else reject(new Error(`${program} ${args.join(" ")} ended with ${code ?? "a signal or too late"}:\n${output}`));
    });
  });

const isOnPath = (name: string): boolean =>
  (process.env["PATH"] ?? "").split(delimiter).some((folder) => existsSync(join(folder, name)));

/** `docker-compose` where it is installed, else `docker compose`; with what makes tests quick. */
export const compose = (args: readonly string[], options?: RunOptions): Promise<Ran> => {
  const files = ["-f", "compose.yaml", "-f", "test/compose/quick.yaml"];
  return isOnPath("docker-compose")
    ? run("docker-compose", [...files, ...args], options)
    : run("docker", ["compose", ...files, ...args], options);
};

export const docker = (args: readonly string[], options?: RunOptions): Promise<Ran> => run("docker", args, options);

/** Runs a shell script in a container, as the service's user. */
export const inside = (container: string, script: string, options?: RunOptions): Promise<Ran> =>
  docker(["exec", "-i", container, "sh", "-c", script], options);

export interface Container {
  Id: string;
  Name: string;
  RestartCount: number;
  State: { Pid: number; Status: string; ExitCode: number; StartedAt: string; Health?: { Status: string } };
  Config: { User: string; StopTimeout: number; Env: string[] };
  Mounts: { Destination: string; RW: boolean; Type: string }[];
  NetworkSettings: { Ports: Record<string, { HostIp: string; HostPort: string }[] | null> };
  HostConfig: {
    ReadonlyRootfs: boolean;
    CapDrop: string[] | null;
    SecurityOpt: string[] | null;
    PidsLimit: number;
    Memory: number;
    Tmpfs: Record<string, string> | null;
    RestartPolicy: { Name: string };
    LogConfig: { Type: string; Config: Record<string, string> };
  };
}

export const inspect = async (container: string): Promise<Container> =>
  (JSON.parse((await docker(["inspect", container])).stdout) as [Container])[0];

/** The ids of a service's containers, also of those that do not run. */
export const containersOf = async (service: string): Promise<string[]> => {
  const labels = ["--filter", `label=com.docker.compose.project=${PROJECT}`];
  const { stdout } = await docker([
    ...["ps", "--all", "--quiet", ...labels],
    ...["--filter", `label=com.docker.compose.service=${service}`],
  ]);
  return stdout.split("\n").filter((id) => id !== "");
};
