#!/bin/sh
# Runs a job of two ranks under the mpirun that is named. Needs TRAINCTL and a folder with
# job.toml.
set -eu
mpirun="$1"
cd "$2"
PATH="$(dirname "$TRAINCTL"):$PATH"
export PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$PORT"

echo "== trainctl submit mpi"
trainctl submit mpi job.toml --nproc-per-node 2 --mpirun "$mpirun" --run 2> mpi.log || { cat mpi.log; exit 1; }
grep "ok after 8 steps" mpi.log

echo "== mpirun"
"$mpirun" -n 2 trainctl worker job.toml --progress plain 2> mpirun.log || { cat mpirun.log; exit 1; }
grep "ok after 8 steps" mpirun.log

echo "== backend mpi"
"$mpirun" -n 2 trainctl worker job.toml --set backend.plugin=mpi --progress plain 2> backend.log || { cat backend.log; exit 1; }
grep "ok after 8 steps" backend.log

echo "== bench allreduce"
"$mpirun" -n 2 trainctl bench allreduce --backend mpi --sizes 1KiB,64KiB --budget 50ms > bench.log 2>&1 || { cat bench.log; exit 1; }
[ "$(grep -c "mpi.* [0-9]*.*KiB" bench.log)" = 2 ] || { cat bench.log; exit 1; }
