#!/bin/bash
# Runs jobs on a Slurm cluster of two nodes on the loopback: slurmctld, two slurmd and
# munged in a mount namespace of their own. Needs root, TRAINCTL, an empty folder, and PORT, the first of three free
# ports. Jobs take their port by their number, so clusters on one host number them differently.
set -euo pipefail
if [ "${1:-}" != inside ]; then
	exec unshare --mount --propagation private bash "$0" inside "${1:?usage: slurm.sh FOLDER}"
fi
D="$2"
H="$(hostname -s)"
mkdir -p "$D"/{state,n1,n2,log,jobs}
export PATH="$(dirname "$TRAINCTL"):$PATH"

(cat /etc/hosts; echo "127.0.0.1 n1 n2 $H") > "$D/hosts"
mount --bind "$D/hosts" /etc/hosts
pmix=/usr/lib/x86_64-linux-gnu/pmix2/lib
if [ -e "$pmix/libpmix.so.2" ] && [ ! -e "$pmix/libpmix.so" ]; then # the name that Slurm opens comes with libpmix-dev
	cp -a "$pmix" "$D/pmix"
	ln -s libpmix.so.2 "$D/pmix/libpmix.so"
	mount --bind "$D/pmix" "$pmix"
fi
(umask 077; head -c 1024 /dev/urandom > "$D/munge.key")
cat > "$D/slurm.conf" <<CONF
ClusterName=test
FirstJobId=$((PORT * 16))
SlurmctldHost=$H(127.0.0.1)
SlurmctldPort=$((PORT))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$D/munge.socket,cred_expire=10
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/%n
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/%n.pid
SlurmctldLogFile=$D/log/slurmctld.log
SlurmdLogFile=$D/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
JobRequeue=1
SlurmdTimeout=10
KillWait=10
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=n[1-2] NodeHostname=$H NodeAddr=127.0.0.1 Port=[$((PORT + 1))-$((PORT + 2))] CPUs=2 RealMemory=500 State=UNKNOWN
PartitionName=debug Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$D/slurm.conf"

# stop ends the daemons, and waits until they have written their state: who has started this removes the folder then.
stop() {
	scancel -u root 2> /dev/null || true
	local pids=()
	for file in "$D"/*.pid; do
		[ ! -e "$file" ] || pids+=("$(cat "$file")")
	done
	[ ${#pids[@]} -gt 0 ] || return 0
	kill "${pids[@]}" 2> /dev/null || true
	for _ in $(seq 300); do
		kill -0 "${pids[@]}" 2> /dev/null || return 0 # true if any is left
		sleep 0.1
	done
	kill -9 "${pids[@]}" 2> /dev/null || true
}
trap stop EXIT
munged --force --key-file="$D/munge.key" --socket="$D/munge.socket" --pid-file="$D/munged.pid" --log-file="$D/log/munged.log" --seed-file="$D/munged.seed"
slurmctld -f "$SLURM_CONF"
slurmd -f "$SLURM_CONF" -N n1
slurmd -f "$SLURM_CONF" -N n2

# until_true COMMAND waits for a state of the cluster.
until_true() {
	for _ in $(seq 1200); do
		if "$@"; then return 0; fi
		sleep 0.1
	done
	echo "waited two minutes for: $*" >&2
	sinfo >&2; squeue >&2; tail -n 20 "$D"/log/*.log "$D"/jobs/*.out >&2 || true
	return 1
}
idle() { [ "$(sinfo -h -t idle -o %D | head -n 1)" = 2 ]; }
gone() { [ -z "$(squeue -h)" ]; }
says() { grep -q "$1" "$D"/jobs/"$2".out 2> /dev/null; }
number() { sed -n 's/^Submitted batch job //p'; }
restarts() { scontrol show job "$job" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p'; }
# All of n2 dies: slurmd, the daemon of the job's step, and the processes of the step.
node_dies() {
	kill -9 "$(cat "$D/n2.pid")"
	rm -f "$D/n2.pid"
	for dir in /proc/[0-9]*; do
		if { tr '\0' '\n' < "$dir/environ" | grep -qx "SLURMD_NODENAME=n2"; } 2> /dev/null && grep -qz "SLURM_CONF=$SLURM_CONF" "$dir/environ"; then
			daemon="$(ps -o ppid= -p "${dir#/proc/}" | tr -d ' ' || true)"
			kill -9 "${dir#/proc/}" || true
			if [ -n "$daemon" ] && ps -o args= -p "$daemon" | grep -q slurmstepd; then kill -9 "$daemon"; fi
		fi
	done
}
until_true idle
cd "$D/jobs"

echo "== sbatch"
job="$(trainctl submit slurm job.toml --nnodes 2 --nproc-per-node 1 --time 10m --run | number)"
until_true gone
says "ok after 8 steps" "job-$job"

echo "== sbatch, an array whose name and options need quotes"
name="Bob's 50% run"
job="$(trainctl submit slurm job.toml --nnodes 2 --nproc-per-node 1 --set run.name="\"$name\"" --sbatch='--comment=two words' --sbatch=--array=1-2 --run | number)"
scontrol show job "$job" | grep -q "Comment=two words"
until_true gone
[ "$(grep -l "ok after 8 steps" "$name"-*.out | wc -l)" = 2 ]
for task in 1 2; do [ -e "runs/$name-$task/1/summary.json" ]; done

echo "== srun"
TRAINCTL_JOB_SECRET="$(trainctl secret)" srun -N 2 -n 2 trainctl worker job.toml --progress plain 2> srun.log || { cat srun.log; exit 1; }
grep -q "ok after 8 steps" srun.log

if command -v mpirun.mpich > /dev/null; then
	echo "== srun, backend mpi"
	TRAINCTL_JOB_SECRET="$(trainctl secret)" srun --mpi=pmi2 -N 2 -n 2 trainctl worker job.toml --set backend.plugin=mpi --progress plain 2> mpi.log || { cat mpi.log; exit 1; }
	grep -q "ok after 8 steps" mpi.log
fi
if command -v mpirun.openmpi > /dev/null && srun --mpi=list 2>&1 | grep -q pmix; then
	echo "== srun, backend mpi, Open MPI" # on one node: two of one host would share PMIx's folder in /tmp
	TRAINCTL_JOB_SECRET="$(trainctl secret)" srun --mpi=pmix -N 1 -n 2 trainctl worker job.toml --set backend.plugin=mpi --progress plain 2> pmix.log || { cat pmix.log; exit 1; }
	grep -q "ok after 8 steps" pmix.log
fi

long=(--nnodes 2 --nproc-per-node 1 --set train.epochs=1000000 --set train.eval_every=0 --set 'checkpoint.every="50 steps"')
echo "== a range of nodes"
job="$(trainctl submit slurm job.toml --nnodes 1:2 --nproc-per-node 1 --set train.global_batch=16 --set train.per_rank_batch=0 --set run.name=range "${long[@]:4}" --set train.log_freq=50 --run | number)"
until_true says "step 50/" "range-$job"
node_dies
until_true says "elastic 1 rank instead of 2" "range-$job"
[ "$(restarts)" = 0 ]
scancel "$job"
until_true gone
slurmd -f "$SLURM_CONF" -N n2
until_true idle

echo "== requeue"
job="$(trainctl submit slurm job.toml "${long[@]}" --set run.name=long --set train.log_freq=50 --run | number)"
until_true says "step 50/" "long-$job"
scancel --signal=USR1 "$job"
until_true says "resume from step" "long-$job"

echo "== node down"
resumed() { grep -c "resume from step" "long-$job.out"; }
more() { [ "$("$1")" -gt "$2" ]; }
before="$(restarts)" continued="$(resumed)"
node_dies
until_true more restarts "$before"
slurmd -f "$SLURM_CONF" -N n2
until_true more resumed "$continued"

echo "== scancel"
scancel "$job"
until_true gone
for dir in /proc/[0-9]*; do
	if grep -qz "SLURM_CONF=$SLURM_CONF" "$dir/environ" 2> /dev/null && tr '\0' ' ' < "$dir/cmdline" | grep -q "job.toml"; then
		echo "left over: $(tr '\0' ' ' < "$dir/cmdline")" >&2
		exit 1
	fi
done
echo "all jobs ended as they should"
