/**
 * What an agent's shell is to run so that it writes its artifact, and nothing else. A newline must follow.
 * @param lines further ones of the frontmatter, such as a verdict; the shell puts its variables into them.
 */
export const writeArtifact = (...lines: string[]): string => `mkdir -p "$(dirname "$ORCH_ARTIFACT")"
cat >"$ORCH_ARTIFACT" <<END
---
work_item: $ORCH_WORK_ITEM_ID
stage: $ORCH_STAGE
author_agent: $ORCH_AGENT
status: completed
created_at: 2026-01-01
model_used: none
${lines.map((line) => `${line}\n`).join("")}---
END`;
