#!/bin/sh
# Works any stage in a moment; `hold` beside it makes it wait, `eat` makes it want all the memory there is.
cat >/dev/null
folder=$(dirname "$0")
echo "$ORCH_STAGE of $ORCH_WORK_ITEM_ID"
while [ -e "$folder/hold" ]; do sleep 0.05; done
if [ -e "$folder/eat" ]; then exec node -e 'const all = []; for (;;) all.push(Buffer.alloc(16 * 2 ** 20, 1))'; fi
case $ORCH_STAGE in
  development) echo "$ORCH_WORK_ITEM_ID" >>code.txt ;;
  review) gate='review_status: APPROVED' ;;
  testing) gate='test_status: PASSED' ;;
  deploy) gate='deploy_status: SUCCESS' ;;
esac
cat >"$ORCH_ARTIFACT" <<EOF
---
work_item: $ORCH_WORK_ITEM_ID
stage: $ORCH_STAGE
author_agent: $ORCH_AGENT
status: completed
created_at: 2030-01-02
model_used: none
${gate:-note: none}
---
Done.
EOF
