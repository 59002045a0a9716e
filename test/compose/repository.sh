#!/bin/sh
# Makes the repository that the tests work on, inside the scheduler's container: its agents, its stagers and its git see it.
set -eu
export HOME=/demo GIT_AUTHOR_NAME=Test GIT_AUTHOR_EMAIL=test@localhost GIT_COMMITTER_NAME=Test GIT_COMMITTER_EMAIL=test@localhost
git init --quiet --bare --initial-branch=main /demo/shop.git
git init --quiet --initial-branch=main /demo/source
cd /demo/source
mkdir .orchestrator
cat >.orchestrator/staging.yaml <<'EOF'
version: 1
timeout_s: 120
steps:
  - name: wait
    run: while [ -e "$ORCH_CACHE_DIR/../hold" ]; do sleep 0.05; done
  - name: look
    run: grep -q "$ORCH_WORK_ITEM_ID" code.txt
EOF
echo shop >code.txt
git add .
git commit --quiet -m "Begin"
git push --quiet /demo/shop.git main
