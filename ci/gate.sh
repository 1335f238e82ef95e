#!/usr/bin/env bash
# Compares the workloads of a checkout with those of its base commit. Ends with 0 whatever the verdict is, so that the report is kept
# and commented on first; ci/finish.sh then ends the job with the exit code.
#
# Reads  GATE_WORKLOADS, GATE_FAIL_ON, GATE_SET (one a line), GATE_BASE, GATE_HARDWARE, GATE_ALLOW_MISSING_BASELINE, GATE_DIRECTORY,
#        GATE_ROOFLINE (the command, `roofline` if it is not set).
# Writes reports, gate.json, comment.md, junit.xml and metrics.txt into GATE_DIRECTORY; exit-code, verdict and directory to
#        GITHUB_OUTPUT; the comment to GITHUB_STEP_SUMMARY. All inputs come by the environment: none is ever part of a script.
set -euo pipefail
directory="${GATE_DIRECTORY:-roofline-gate}"
read -r -a roofline <<<"${GATE_ROOFLINE:-roofline}"

# One argument for each line that says something, after the option if one is given.
arguments=()
add_lines() {
  local option="$1" line
  while IFS= read -r line; do
    line="${line#"${line%%[![:space:]]*}"}"
    line="${line%"${line##*[![:space:]]}"}"
    [[ -z "$line" ]] && continue
    [[ -n "$option" ]] && arguments+=("$option")
    arguments+=("$line")
  done <<<"$2"
}

add_lines --fail-on "${GATE_FAIL_ON:-}"
add_lines --set "${GATE_SET:-}"
[[ -n "${GATE_HARDWARE:-}" ]] && arguments+=(--hardware "$GATE_HARDWARE")
[[ "${GATE_ALLOW_MISSING_BASELINE:-true}" == true ]] && arguments+=(--allow-missing-baseline)
arguments+=(--)
add_lines "" "${GATE_WORKLOADS:-workloads}"

mkdir -p "$directory"
code=0
if [[ -z "${GATE_BASE:-}" || "${GATE_BASE}" =~ ^0+$ ]]; then
  # The first push of a branch has no commit before it.
  echo "no baseline: this event names no commit to compare with"
  printf '%s\n' '<!-- roofline-diff -->' '**no baseline: this event names no commit to compare with**' >"$directory/comment.md"
  verdict="no baseline"
  [[ "${GATE_ALLOW_MISSING_BASELINE:-true}" == true ]] || code=3
else
  "${roofline[@]}" gate --base "$GATE_BASE" --directory "$directory" "${arguments[@]}" || code=$?
  if [[ -f "$directory/gate.json" ]]; then
    verdict="$(python -c 'import json, sys; print(json.load(open(sys.argv[1], encoding="utf-8"))["verdict"])' "$directory/gate.json")"
  else
    verdict="invalid"
    printf '%s\n' '<!-- roofline-diff -->' '**invalid: the workloads cannot be analyzed; the log of the job says why**' >"$directory/comment.md"
  fi
fi

{
  echo "exit-code=$code"
  echo "verdict=$verdict"
  echo "directory=$directory"
} >>"${GITHUB_OUTPUT:-/dev/null}"
if [[ "${GATE_SUMMARY:-true}" == true ]]; then
  cat "$directory/comment.md" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
fi
