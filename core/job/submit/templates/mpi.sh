{{define "mpi.sh" -}}
#!/bin/sh
# Starts {{.Ranks}} ranks, {{.Nproc}} on each of {{.MinNodes}} nodes. Run it where {{.Mpirun}} can start processes: in an
# allocation, or with more options for {{.Mpirun}} as arguments, such as --hostfile FILE.
set -eu
TRAINCTL_JOB_SECRET="$({{shell .Program}} secret)"
export TRAINCTL_JOB_SECRET
# Rank 0 is on the first node of {{.Mpirun}}, which may not be this one.
MASTER_ADDR="${MASTER_ADDR:-$({{.Mpirun}} -n 1 "$@" hostname)}"
export MASTER_ADDR MASTER_PORT="${MASTER_PORT:-29500}"

# Open MPI passes on what it is told to, MPICH and Intel MPI the whole environment.
if {{.Mpirun}} --version | grep -q 'Open MPI\|OpenRTE'; then
	set -- --map-by ppr:{{.Nproc}}:node --bind-to none -x TRAINCTL_JOB_SECRET -x MASTER_ADDR -x MASTER_PORT "$@"
else
	set -- -ppn {{.Nproc}} "$@"
fi
exec {{.Mpirun}} -n {{.Ranks}} "$@" {{shell .Program}} worker {{shell .Config}} --resume auto{{range .Args}} {{shell .}}{{end}}
{{end}}
