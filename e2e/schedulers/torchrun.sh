#!/bin/sh
# Runs a job of two ranks under torchrun, that of $TORCHRUN. Needs TRAINCTL and a folder
# with job.toml.
set -eu
cd "$1"
PATH="$(dirname "$TRAINCTL"):$PATH"
export PATH

echo "== torchrun"
"$TORCHRUN" --no-python --nproc-per-node 2 --master-addr 127.0.0.1 --master-port "$PORT" trainctl worker job.toml --progress plain 2> torchrun.log || { cat torchrun.log; exit 1; }
rm -rf "${TMPDIR:-/tmp}"/torchelastic_* # which torchrun leaves
grep "ok after 8 steps" torchrun.log
