#!/bin/sh
# The harness's agent. It notes its start and its end where no crash of the services reaches, does each role's duty, and
# leaves something running. The note of its end is the last that it does before its exit 0.
set -u
note() { echo "$1 $ORCH_JOB_ID $ORCH_RUN_ID $ORCH_WORK_ITEM_ID $ORCH_STAGE" >>"$CRASH_FOLDER/journal"; }

# Whether an earlier agent of this work item is at work still: two at once would spoil one another's work.
alive="$CRASH_FOLDER/alive.$ORCH_WORK_ITEM_ID"
if [ -s "$alive" ] && read -r stat 2>/dev/null <"/proc/$(cat "$alive")/stat"; then
  case $stat in *") Z "*) ;; *) note overlap ;; esac
fi
echo $$ >"$alive"

note start
cat >/dev/null
setsid sleep 300 >/dev/null 2>&1 &

second_round() { git --no-replace-objects cat-file -e "HEAD:$1" 2>/dev/null; }
gate="note: none"
case $ORCH_STAGE in
  development)
    source="src/$ORCH_WORK_ITEM_ID.txt"
    # Items that end in 7 break staging until they have been sent back.
    case $ORCH_WORK_ITEM_ID in *7) second_round "$source" || word=broken ;; esac
    mkdir -p src && echo "${word:-sound} by run $ORCH_RUN_ID" >"$source"
    # Every other item's agent commits by itself, as many do.
    case $ORCH_WORK_ITEM_ID in
      *[02468]) git add src && git -c user.name=Agent -c user.email=agent@localhost commit -q -m "Write $source" ;;
    esac
    ;;
  review)
    gate="review_status: APPROVED"
    # Items that end in 3 are sent back by their first review.
    case $ORCH_WORK_ITEM_ID in *3) second_round "$ORCH_ARTIFACT" || gate="review_status: CHANGES_REQUESTED" ;; esac
    ;;
  testing) gate="test_status: PASSED" ;;
  deploy) gate="deploy_status: SUCCESS" ;;
esac
sleep "0.$((ORCH_RUN_ID % 3))"
mkdir -p "$(dirname "$ORCH_ARTIFACT")"
cat >"$ORCH_ARTIFACT" <<END
---
work_item: $ORCH_WORK_ITEM_ID
stage: $ORCH_STAGE
author_agent: $ORCH_AGENT
status: completed
created_at: 2026-01-01
model_used: none
$gate
---

Done by run $ORCH_RUN_ID.
END
note wrote
echo "run $ORCH_RUN_ID has done its work"
note end
exit 0
