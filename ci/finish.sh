#!/usr/bin/env bash
# Ends the job with the exit code of the gate, after its report is kept. Reads GATE_EXIT_CODE and GATE_VERDICT.
set -euo pipefail
echo "roofline gate: ${GATE_VERDICT:-unknown}"
exit "${GATE_EXIT_CODE:?}"
