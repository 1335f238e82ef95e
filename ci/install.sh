#!/usr/bin/env bash
# Installs roofline: the released version asked for, else the checkout that this action is.
# Reads GATE_VERSION (may be empty) and GATE_ROOT.
set -euo pipefail
if [[ -n "${GATE_VERSION:-}" ]]; then
  requirement="roofline==${GATE_VERSION}"
else
  requirement="${GATE_ROOT:?}"
fi
python -m pip install --quiet --disable-pip-version-check "$requirement"
