import { childEnvironment } from "@orchestrator/shared/process/child_environment.ts";
import { expect, test } from "vitest";

test("lets the allow-list through and nothing else", () => {
  const allowed = {
    PATH: "/bin",
    HOME: "/home/u",
    USER: "u",
    SHELL: "/bin/sh",
    LANG: "C.UTF-8",
    LC_ALL: "C",
    LC_TIME: "de_DE.UTF-8",
    TZ: "UTC",
    TERM: "dumb",
    TMPDIR: "/tmp",
    SSH_AUTH_SOCK: "/run/ssh",
    HTTPS_PROXY: "http://proxy:3128",
    no_proxy: "localhost",
    SSL_CERT_FILE: "/etc/ssl/own.pem",
    NODE_EXTRA_CA_CERTS: "/etc/ssl/own.pem",
  };
  const refused = {
    ORCH_API_TOKEN: "secret",
    ORCH_STAGER_TOKEN: "secret",
    ORCH_DB_AUTH_TOKEN: "secret",
    ORCH_INSTANCE_ID: "another",
    AWS_SECRET_ACCESS_KEY: "secret",
    NODE_OPTIONS: "--require x",
    LD_PRELOAD: "x.so",
    GIT_DIR: "/elsewhere/.git",
    LCX: "no",
    path: "/no",
  };
  expect(childEnvironment({ ...refused, ...allowed, LC_UNSET: undefined }, {})).toEqual(allowed);
});

test("what is added wins and need not be on the list", () => {
  expect(childEnvironment({ PATH: "/bin" }, { PATH: "/own/bin", ORCH_RUN_ID: "7" })).toEqual({
    PATH: "/own/bin",
    ORCH_RUN_ID: "7",
  });
});
