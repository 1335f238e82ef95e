#!/usr/bin/env bash
# Writes the comment of a pull request, or brings the one that is there up to date. A token that may not write is no failure of the
# gate: the comment is in the job's summary as well.
#
# Reads GATE_DIRECTORY, GITHUB_REPOSITORY, GH_TOKEN, and GATE_PULL_REQUEST; or, without a number, GATE_HEAD_SHA, GATE_HEAD_OWNER and
# GATE_HEAD_BRANCH, by which the pull request of a fork is found. A number that an artefact claims is never used.
set -euo pipefail
comment="${GATE_DIRECTORY:-roofline-gate}/comment.md"
number="${GATE_PULL_REQUEST:-}"
if [[ -z "$number" ]]; then
  number="$(gh api --method GET "repos/${GITHUB_REPOSITORY:?}/pulls" -f state=open -f "head=${GATE_HEAD_OWNER:?}:${GATE_HEAD_BRANCH:?}" \
    --jq 'map(select(.head.sha == env.GATE_HEAD_SHA)) | .[0].number // empty')"
fi
if [[ ! "$number" =~ ^[0-9]+$ ]]; then
  echo "::notice::no open pull request has this commit as its head; nothing was commented on"
  exit 0
fi
# Only a comment that a bot wrote is ours: anybody can write the marker.
existing="$(gh api --paginate "repos/${GITHUB_REPOSITORY:?}/issues/${number}/comments" \
  --jq '.[] | select(.user.type == "Bot" and (.body | startswith("<!-- roofline-diff -->"))) | .id' | head -n 1 || true)"
if [[ "$existing" =~ ^[0-9]+$ ]]; then
  path="repos/${GITHUB_REPOSITORY}/issues/comments/${existing}" method=PATCH
else
  path="repos/${GITHUB_REPOSITORY}/issues/${number}/comments" method=POST
fi
if ! gh api --method "$method" "$path" -F "body=@${comment}" --silent; then
  echo "::warning::the comment could not be written; see docs/ci.md on pull requests from forks"
fi
