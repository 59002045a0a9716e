import { readFile } from "node:fs/promises";
import type { Config } from "@orchestrator/shared/config/config.ts";

/** What a scheduler that has nothing to work on tells whoever started it. */
export interface FirstStart {
  /** For the log. */
  line: string;
  /** For a browser: a whole HTML document. */
  page(): Promise<string>;
}

/** @returns null where a repository is configured. */
export const firstStart = ({ repos, configPath }: Pick<Config, "repos" | "configPath">): FirstStart | null => {
  if (Object.keys(repos).length > 0) return null;
  return {
    line: `nothing to work on yet: write repos and agents into ${configPath} (GET / shows a sample), then restart`,
    page: async () => {
      // In an image the services stand as they do in the sources.
      const sample = await readFile(new URL("../orchestrator.sample.yaml", import.meta.url), "utf8");
      return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Orchestrator: first steps</title>
<style>body { font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark }
pre { overflow-x: auto; padding: 1rem; border: 1px solid gray }</style>
<h1>The orchestrator runs, and has nothing to work on yet</h1>
<ol>
<li>Write a configuration like this one into <code>${escapeHtml(configPath)}</code>.
In containers: <code>docker exec -i orchestrator-scheduler sh -c 'cat &gt; ${escapeHtml(configPath)}' &lt; orchestrator.yaml</code>
<li>Restart the services. In containers: <code>docker compose restart</code>
<li>Hand in a work item with <code>POST /tasks</code>; <code>GET /openapi.json</code> has every call.
</ol>
<pre>${escapeHtml(sample)}</pre>
</html>
`;
    },
  };
};

const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
