#!/usr/bin/env bash
# Judges the reports of an artefact again and renders their comment here. An artefact comes from a job that ran the code of a fork:
# its reports are data that is checked as it is read, and its text is never used.
# Reads GATE_ARTIFACT, GATE_FAIL_ON (one a line), GATE_DIRECTORY, GATE_ROOFLINE.
set -euo pipefail
directory="${GATE_DIRECTORY:-roofline-gate}"
read -r -a roofline <<<"${GATE_ROOFLINE:-roofline}"
arguments=()
while IFS= read -r rule; do
  [[ -n "${rule//[[:space:]]/}" ]] && arguments+=(--fail-on "$rule")
done <<<"${GATE_FAIL_ON:-}"
mkdir -p "$directory"
code=0
"${roofline[@]}" gate --from "${GATE_ARTIFACT:?}" --allow-missing-baseline --format markdown "${arguments[@]+"${arguments[@]}"}" \
  --output "$directory/comment.md" || code=$?
if [[ ! -s "$directory/comment.md" ]]; then
  printf '%s\n' '<!-- roofline-diff -->' '**invalid: the reports of this pull request cannot be read; the log of its job says why**' >"$directory/comment.md"
fi
echo "the comment is rendered; the reports gave exit code $code"
