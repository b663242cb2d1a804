package mpi

import (
	"slices"

	"github.com/trainctl/trainctl/core/sdk"
)

// launcher is what started this rank, and the implementations of MPI that can find it.
type launcher struct {
	name  string
	fits  []*implementation // the preferred one first
	marks []string          // variables, one of which is set
}

// launchers in the order in which they are looked for: mpirun may itself have been started
// by srun.
var launchers = []launcher{
	{"mpirun of Open MPI", []*implementation{&openMPI}, []string{"OMPI_COMM_WORLD_SIZE"}},
	{"a launcher with PMIx", []*implementation{&openMPI, &mpich}, []string{"PMIX_RANK"}},
	{"a launcher with PMI", []*implementation{&mpich, &openMPI}, []string{"PMI_RANK", "PMI_FD", "PMI_PORT", "PALS_RANKID"}},
}

// launcherOf returns what started this rank, nil if nothing is known that starts MPI.
func launcherOf(lookup func(string) (string, bool)) *launcher {
	i := slices.IndexFunc(launchers, func(l launcher) bool {
		return slices.ContainsFunc(l.marks, func(name string) bool { _, set := lookup(name); return set })
	})
	if i < 0 {
		return nil
	}
	return &launchers[i]
}

// Variables are those by which the library finds its launcher and its settings. A host
// passes them on to this plugin alone.
func Variables() []string {
	return []string{
		"OMPI_*", "OPAL_*", "ORTE_*", "PMIX_*", "PRTE_*", "PMI_*", "PMI2_*", "HYDRA_*", "HYDI_*", "PALS_*",
		"MPI_LOCALRANKID", "MPI_LOCALNRANKS", "MPIR_*", "MPICH_*", "I_MPI_*", "MV2_*", "MVP_*",
		"FI_*", "UCX_*", "HCOLL_*", "SHARP_*", "PSM2_*", "PSM3_*",
		"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS",
		"SLURM_NPROCS", "SLURM_NNODES", "SLURM_STEP*", "SLURM_TASKS_PER_NODE", "SLURM_TOPOLOGY_*", "SLURM_MPI_TYPE", "SLURM_PMI*", "SLURM_SRUN_COMM_*", "SLURMD_NODENAME",
	}
}

var errNoLauncher = &sdk.Error{Code: sdk.CodeUnavailable, Text: "backend mpi: several ranks, but neither mpirun nor srun --mpi=pmix or pmi2 has started this one, so MPI cannot find the others; " +
	"start the job with mpirun -n N trainctl worker CONFIG, or use backend.plugin = \"tcp\""}
