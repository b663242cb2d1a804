{{define "slurm.sh" -}}
#!/bin/bash
#SBATCH --job-name={{shell .Name}}
#SBATCH --nodes={{.NodeRange}}
{{- if not .Elastic}}
#SBATCH --ntasks-per-node=1
{{- end}}
{{- range .Options}}
#SBATCH {{.}}
{{- end}}
#SBATCH --signal=USR1@{{seconds .Grace}}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={{shell .Output}}

# One launcher on each node starts its ranks. Before the time limit Slurm sends SIGUSR1 to
# the launchers: they save and end with 75, and the job goes back into the queue. It
# continues from its newest checkpoint, as it does after the loss of a node, which Slurm
# may notice much later than the other nodes.
set -u
TRAINCTL_JOB_SECRET="$({{shell .Program}} secret)"
export TRAINCTL_JOB_SECRET
{{- if not .Etcd}}
nodes="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"
endpoint="${nodes%%[[:space:]]*}:$(({{.Spread.First}} + SLURM_JOB_ID % {{.Width}}))"
{{- end}}

run=()
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then # each task of an array is a run of its own, which resumes itself
	run=(--set {{.TaskName}}"$SLURM_ARRAY_TASK_ID"'"')
fi

srun --kill-on-bad-exit=0 {{if .Elastic}}--no-kill --wait=0 --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 {{end}}${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} \
	bash -c 'exec "$0" "$@" --node-rank "$SLURM_NODEID"' {{shell .Program}} run {{shell .Config}} \
	--nnodes {{if .Elastic}}{{.Nodes}}{{else}}"$SLURM_JOB_NUM_NODES"{{end}}{{if not .Etcd}} --rdzv-endpoint "$endpoint"{{end}} \
	--resume auto --set launch.requeue=true{{range .Args}} {{shell .}}{{end}} ${run[@]+"${run[@]}"}
code=$?
lost=no
case "$code" in
4 | 5 | 7 | 1[3-5][0-9]) lost=yes ;; # a rank or a node has failed, or srun could not reach one
esac
# scancel stops the launchers first, which then end with 75, too: requeueing would undo it.
ends() { scontrol show job "$SLURM_JOB_ID" | grep -Eq "JobState=(COMPLETING|CANCELLED)"; }
if { [ "$code" -eq 75 ] || { [ "$lost" = yes ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 10 ]; }; } && ! ends; then
	scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
{{end}}
