/** What a child may inherit. Everything else, tokens above all, stays with the services. */
const ALLOWED = new Set([
  "PATH",
  "HOME",
  "USER",
  "SHELL",
  "LANG",
  "TZ",
  "TERM",
  "TMPDIR",
  "SSH_AUTH_SOCK",
  // Proxies; both spellings are in use.
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "FTP_PROXY",
  "ALL_PROXY",
  "NO_PROXY",
  "http_proxy",
  "https_proxy",
  "ftp_proxy",
  "all_proxy",
  "no_proxy",
  // Certificates, by the names that OpenSSL, curl, git, Node, Deno, Python, the AWS tools, cargo and Nix look for.
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "CURL_CA_BUNDLE",
  "GIT_SSL_CAINFO",
  "GIT_SSL_CAPATH",
  "NODE_EXTRA_CA_CERTS",
  "DENO_CERT",
  "DENO_TLS_CA_STORE",
  "REQUESTS_CA_BUNDLE",
  "PIP_CERT",
  "AWS_CA_BUNDLE",
  "CARGO_HTTP_CAINFO",
  "NIX_SSL_CERT_FILE",
]);

const isAllowed = (name: string): boolean => ALLOWED.has(name) || name.startsWith("LC_");

/**
 * The environment of an agent or a step: what the allow-list lets through of `parentEnv`, then `extra`, which wins.
 */
export const childEnvironment = (
  parentEnv: Readonly<Record<string, string | undefined>>,
  extra: Readonly<Record<string, string>>,
): Record<string, string> => {
  const inherited = Object.entries(parentEnv).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && isAllowed(entry[0]),
  );
  return { ...Object.fromEntries(inherited), ...extra };
};
