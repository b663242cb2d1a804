package rank

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type vars map[string]string

func (v vars) lookup(name string) (string, bool) { s, ok := v[name]; return s, ok }

func (v vars) with(more vars) vars {
	out := maps.Clone(v)
	for k, s := range more {
		if s == "-" {
			delete(out, k)
			continue
		}
		out[k] = s
	}
	return out
}

var (
	underTorchrun = vars{"RANK": "5", "LOCAL_RANK": "1", "GROUP_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "GROUP_WORLD_SIZE": "2",
		"MASTER_ADDR": "node0", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "job7", "TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_MAX_RESTARTS": "3"}
	underSlurm = vars{"SLURM_PROCID": "3", "SLURM_NTASKS": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_NNODES": "3",
		"SLURM_STEP_TASKS_PER_NODE": "2(x2),1", "SLURM_JOB_NODELIST": "a[1-3],b7", "SLURM_JOB_ID": "123456"}
	// What sbatch -n2 of Slurm 22.05 gives a batch script.
	underBatch = vars{"ENVIRONMENT": "BATCH", "SLURM_JOB_ID": "5", "SLURM_JOB_NAME": "interactive", "SLURM_LOCALID": "0", "SLURM_NNODES": "1", "SLURM_NODEID": "0",
		"SLURM_NPROCS": "2", "SLURM_NTASKS": "2", "SLURM_PROCID": "0", "SLURM_TASKS_PER_NODE": "2"}
	// What srun -N2 -n2 of Slurm 22.05 gives its second task, in an allocation of salloc -J interactive.
	underSrun = vars{"SLURM_JOB_ID": "12", "SLURM_JOBID": "12", "SLURM_JOB_NAME": "interactive", "SLURM_JOB_NODELIST": "jn[1-2]", "SLURM_JOB_NUM_NODES": "2",
		"SLURM_NODELIST": "jn[1-2]", "SLURM_STEP_NODELIST": "jn[1-2]", "SLURM_NNODES": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_NODEID": "1", "SLURMD_NODENAME": "jn2",
		"SLURM_NTASKS": "2", "SLURM_NPROCS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
		"SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_GTIDS": "1", "SLURM_STEP_ID": "0", "SLURM_STEPID": "0"}
	// What mpirun of Open MPI 4.1 gives its second rank in a batch script over the same nodes: its daemon is a task of srun.
	underMPIInBatch = underSrun.with(vars{"ENVIRONMENT": "BATCH", "SLURM_STEP_ID": "1", "SLURM_STEPID": "1", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2",
		"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "OMPI_COMM_WORLD_NODE_RANK": "0", "PMIX_NAMESPACE": "1836122113", "PMIX_RANK": "1", "MASTER_ADDR": "jn1"})
	underIndexedJob = vars{"JOB_COMPLETION_INDEX": "2", "PET_NNODES": "4", "MASTER_ADDR": "job-0.job", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
	underOpenMPI    = vars{"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
		"PMIX_NAMESPACE": "prterun-1", "MASTER_ADDR": "node0", "OMPI_COMM_WORLD_NODE_RANK": "1"}
	underMPICH   = vars{"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
	underHorovod = vars{"HOROVOD_RANK": "5", "HOROVOD_SIZE": "8", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_LOCAL_SIZE": "4", "HOROVOD_CROSS_RANK": "1",
		"HOROVOD_CROSS_SIZE": "2", "MASTER_ADDR": "h0"}
)

func TestFromEnv(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  vars
		want World
	}{
		{"nothing", vars{}, World{Size: 1, LocalSize: 1, Nodes: 1, MasterAddr: "127.0.0.1", RunID: "single", Source: "single"}},
		{"torchrun", underTorchrun, World{5, 8, 1, 4, 1, 2, "node0", 29500, "job7", 1, 3, "torchrun"}},
		{"trainctl", underTorchrun.with(vars{EnvStore: "h:1"}), World{5, 8, 1, 4, 1, 2, "node0", 29500, "job7", 1, 3, "trainctl"}},
		{"torchrun without groups", underTorchrun.with(vars{"GROUP_RANK": "-", "GROUP_WORLD_SIZE": "-"}),
			World{5, 8, 1, 4, 1, 2, "node0", 29500, "job7", 1, 3, "torchrun"}},
		{"torchrun inside slurm", underTorchrun.with(underSlurm), World{5, 8, 1, 4, 1, 2, "node0", 29500, "job7", 1, 3, "torchrun"}},
		{"slurm", underSlurm, World{3, 5, 1, 2, 1, 3, "a1", 18456, "123456", 0, 0, "slurm"}},
		{"slurm with an exported WORLD_SIZE and master", underSlurm.with(vars{"WORLD_SIZE": "5", "MASTER_ADDR": "m", "MASTER_PORT": "7"}),
			World{3, 5, 1, 2, 1, 3, "m", 7, "123456", 0, 0, "slurm"}},
		{"slurm, last node", underSlurm.with(vars{"SLURM_PROCID": "4", "SLURM_NODEID": "2", "SLURM_LOCALID": "0"}),
			World{4, 5, 0, 1, 2, 3, "a1", 18456, "123456", 0, 0, "slurm"}},
		{"slurm, NTASKS_PER_NODE and TASKS unset", underSlurm.with(vars{"SLURM_STEP_TASKS_PER_NODE": "-", "SLURM_NTASKS": "6"}),
			World{3, 6, 1, 2, 1, 3, "a1", 18456, "123456", 0, 0, "slurm"}},
		{"slurm, no job id", underSlurm.with(vars{"SLURM_JOB_ID": "-"}), World{3, 5, 1, 2, 1, 3, "a1", 12910, "none", 0, 0, "slurm"}},
		{"slurm, a job named bash", underSlurm.with(vars{"SLURM_JOB_NAME": "bash"}), World{3, 5, 1, 2, 1, 3, "a1", 18456, "123456", 0, 0, "slurm"}},
		{"slurm, salloc and srun", underSlurm.with(vars{"SLURM_JOB_NAME": "interactive", "SLURM_STEP_NUM_TASKS": "5", "SLURM_NTASKS": "9"}), World{3, 5, 1, 2, 1, 3, "a1", 18456, "123456", 0, 0, "slurm"}},
		{"slurm, srun in a batch script", underSlurm.with(vars{"ENVIRONMENT": "BATCH", "SLURM_STEP_ID": "0"}), World{3, 5, 1, 2, 1, 3, "a1", 18456, "123456.0", 0, 0, "slurm"}},
		{"slurm, srun of salloc", underSrun, World{1, 2, 0, 1, 1, 2, "jn1", 15012, "12.0", 0, 0, "slurm"}},
		{"slurm, a step beside another", underSrun.with(vars{"SLURM_STEP_ID": "1"}), World{1, 2, 0, 1, 1, 2, "jn1", 16009, "12.1", 0, 0, "slurm"}},
		{"slurm, a step of one task in an allocation of more", underSrun.with(vars{"SLURM_NNODES": "1", "SLURM_STEP_NUM_NODES": "1", "SLURM_NODEID": "0", "SLURM_NTASKS": "1",
			"SLURM_STEP_NUM_TASKS": "1", "SLURM_TASKS_PER_NODE": "1", "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_STEP_NODELIST": "jn2", "SLURM_PROCID": "0"}),
			World{0, 1, 0, 1, 0, 1, "jn2", 15012, "12.0", 0, 0, "slurm"}},
		{"mpirun in a batch script over two nodes", underMPIInBatch, World{1, 2, 0, 1, 1, 2, "jn1", 29500, "1836122113", 0, 0, "openmpi"}},
		{"slurm, a batch script of one task", underBatch.with(vars{"SLURM_NTASKS": "-"}), Single()},
		{"slurm, the shell of salloc for one task", vars{"SLURM_JOB_ID": "7", "SLURM_NTASKS": "1", "SLURM_NNODES": "1"}, Single()},
		{"SLURM_NTASKS outside an allocation", vars{"SLURM_NTASKS": "8"}, Single()},
		{"mpirun in a batch script", underOpenMPI.with(underBatch), World{3, 4, 1, 2, 1, 2, "node0", 29500, "prterun-1", 0, 0, "openmpi"}},
		{"mpirun's daemon under srun", underOpenMPI.with(underSlurm).with(vars{"SLURM_STEP_ID": "0"}), World{3, 4, 1, 2, 1, 2, "node0", 29500, "prterun-1", 0, 0, "openmpi"}},
		{"hydra in a batch script", underMPICH.with(underBatch), World{1, 2, 1, 2, 0, 1, "127.0.0.1", 29500, "none", 0, 0, "mpich"}},
		{"srun --mpi=pmi2", underSlurm.with(vars{"PMI_RANK": "3", "PMI_SIZE": "5"}), World{3, 5, 1, 2, 1, 3, "a1", 18456, "123456", 0, 0, "slurm"}},
		{"horovodrun in the shell of salloc", underHorovod.with(vars{"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8"}), World{5, 8, 1, 4, 1, 2, "h0", 29500, "none", 0, 0, "horovod"}},
		{"a pod of an Indexed Job", underIndexedJob, World{2, 4, 0, 1, 2, 4, "job-0.job", 29500, "none", 0, 0, "kubernetes"}},
		{"an Indexed Job with WORLD_SIZE, over IPv6", vars{"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "2", "PET_MASTER_ADDR": "fd77::1", "PET_MASTER_PORT": "7"},
			World{1, 2, 0, 1, 1, 2, "fd77::1", 7, "none", 0, 0, "kubernetes"}},
		{"trainctl run's rank in an Indexed Job", underTorchrun.with(underIndexedJob), World{5, 8, 1, 4, 1, 2, "job-0.job", 29500, "job7", 1, 3, "torchrun"}},
		{"openmpi", underOpenMPI, World{3, 4, 1, 2, 1, 2, "node0", 29500, "prterun-1", 0, 0, "openmpi"}},
		{"openmpi mapped by node", underOpenMPI.with(vars{"OMPI_COMM_WORLD_RANK": "2"}), World{2, 4, 1, 2, -1, 2, "node0", 29500, "prterun-1", 0, 0, "openmpi"}},
		{"mpich on one host", underMPICH, World{1, 2, 1, 2, 0, 1, "127.0.0.1", 29500, "none", 0, 0, "mpich"}},
		{"horovod", underHorovod, World{5, 8, 1, 4, 1, 2, "h0", 29500, "none", 0, 0, "horovod"}},
		{"horovod under openmpi", underHorovod.with(underOpenMPI), World{3, 4, 1, 2, 1, 2, "node0", 29500, "prterun-1", 0, 0, "openmpi"}},
		{"run id of ours", underMPICH.with(vars{EnvRunID: "x"}), World{1, 2, 1, 2, 0, 1, "127.0.0.1", 29500, "x", 0, 0, "mpich"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := FromEnv(tc.env.lookup)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// Each variable that a contract needs is missed by its name.
func TestFromEnvNamesTheMissingVariable(t *testing.T) {
	for _, tc := range []struct {
		env  vars
		need []string
	}{
		{underTorchrun, []string{"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}},
		{underSlurm, []string{"SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_NODELIST"}},
		{underOpenMPI, []string{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "MASTER_ADDR"}},
		{underMPICH, []string{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}},
		{underHorovod, []string{"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE", "MASTER_ADDR"}},
	} {
		for _, name := range tc.need {
			_, err := FromEnv(tc.env.with(vars{name: "-"}).lookup)
			var bad *EnvError
			if !errors.As(err, &bad) || bad.Var != name || !strings.Contains(err.Error(), name) {
				t.Errorf("without %s: %v", name, err)
			}
		}
	}
}

func TestFromEnvRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  vars
		want string
	}{
		{"port too high", underTorchrun.with(vars{"MASTER_PORT": "65536"}), `MASTER_PORT is "65536", not a port in 0..65535`},
		{"port negative", underTorchrun.with(vars{"MASTER_PORT": "-1"}), "0..65535"},
		{"rank beyond world", underTorchrun.with(vars{"RANK": "8"}), "rank 8 is outside a world of 8"},
		{"local rank beyond", underTorchrun.with(vars{"LOCAL_RANK": "4"}), "local rank 4 is outside a local world of 4"},
		{"no number", underTorchrun.with(vars{"RANK": "one"}), `RANK is "one"`},
		{"rank without size", vars{"PMI_RANK": "0"}, "rank without size: PMI_RANK is set, PMI_SIZE is missing"},
		{"pod's numbers", vars{"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "m", "MASTER_PORT": "1", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "count pods"},
		{"WORLD_SIZE alone", vars{"WORLD_SIZE": "2"}, "RANK is missing"},
		{"bad node list", underSlurm.with(vars{"SLURM_JOB_NODELIST": "a[1-"}), "SLURM_JOB_NODELIST"},
		{"a batch script of several tasks", underBatch, "srun trainctl worker"},
		{"a batch script of several nodes", underBatch.with(vars{"SLURM_NTASKS": "-", "SLURM_NNODES": "2"}), "the allocation is for 2 tasks"},
		{"the shell of salloc", vars{"SLURM_JOB_ID": "2", "SLURM_JOB_NAME": "bash", "SLURM_NNODES": "1", "SLURM_NPROCS": "2", "SLURM_NTASKS": "2"}, "srun trainctl worker"},
		{"the shell of salloc that is a step", underSlurm.with(vars{"SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"}), "srun trainctl worker"},
		{"a pod that does not know how many", underIndexedJob.with(vars{"PET_NNODES": "-"}), "PET_NNODES"},
		{"a pod that does not know the first", underIndexedJob.with(vars{"MASTER_ADDR": "-"}), "MASTER_ADDR is missing"},
		{"slurm contradiction", underSlurm.with(vars{"SLURM_LOCALID": "2"}), "local rank 2 is outside a local world of 2"},
		{"incomplete torchrun before complete slurm", underSlurm.with(vars{"RANK": "1"}), "LOCAL_RANK"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, err := FromEnv(tc.env.lookup)
			if err == nil || !(strings.Contains(err.Error(), tc.want) || tc.name == "incomplete torchrun before complete slurm") {
				t.Errorf("got %v, %v; want an error with %q", w, err, tc.want)
			}
		})
	}
}

func TestExplainShowsWinnerAndLosers(t *testing.T) {
	var got []string
	for _, c := range Explain(underTorchrun.with(underSlurm).with(underMPICH).lookup) {
		mark := " "
		if c.Winner {
			mark = "*"
		}
		got = append(got, mark+c.Source+": "+c.Why)
	}
	want := []string{"*torchrun: first complete set", " mpich: comes after torchrun", " slurm: comes after torchrun", " single: comes after torchrun"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNodeFromEnv(t *testing.T) {
	pod := vars{"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "m", "MASTER_PORT": "23456", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
	pet := vars{"PET_NNODES": "4", "PET_NODE_RANK": "2", "PET_MASTER_ADDR": "t"}
	for _, tc := range []struct {
		env  vars
		want Node
		ok   bool
	}{
		{vars{}, Node{}, false},
		{pod, Node{1, 2, "m:23456", "RANK"}, true},
		{pod.with(vars{"LOCAL_RANK": "0"}), Node{}, false},
		{pet, Node{Endpoint: "t:29500", Source: "PET_MASTER_ADDR"}, true},
		{vars{"PET_NNODES": "4"}, Node{}, false},
		{vars{"JOB_COMPLETION_INDEX": "2", "PET_NNODES": "4", "MASTER_ADDR": "job-0.job"}, Node{Rank: 2, Nodes: 4, Endpoint: "job-0.job:29500", Source: "JOB_COMPLETION_INDEX"}, true},
		{vars{"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "3", "PET_MASTER_ADDR": "fd77::1", "PET_MASTER_PORT": "7"}, Node{1, 3, "[fd77::1]:7", "JOB_COMPLETION_INDEX"}, true},
	} {
		got, ok, err := NodeFromEnv(tc.env.lookup)
		if got != tc.want || ok != tc.ok || err != nil {
			t.Errorf("%v: %+v %v %v", tc.env, got, ok, err)
		}
	}
	if _, ok, err := NodeFromEnv(pet.with(vars{"PET_MASTER_PORT": "x"}).lookup); !ok || err == nil || !strings.Contains(err.Error(), "PET_MASTER_PORT") {
		t.Errorf("a port that is none: %v %v", ok, err)
	}
	if _, ok, err := NodeFromEnv(pod.with(vars{"WORLD_SIZE": "1"}).lookup); !ok || err == nil || !strings.Contains(err.Error(), "WORLD_SIZE is 1") {
		t.Errorf("a pod too many: %v %v", ok, err)
	}
}

// A pod of an Indexed Job that does not know how many pods train together would
// train alone, as all others would.
func TestIndexedJobWantsItsSize(t *testing.T) {
	_, ok, err := NodeFromEnv(vars{"JOB_COMPLETION_INDEX": "0"}.lookup)
	if !ok || err == nil || !strings.Contains(err.Error(), "PET_NNODES") {
		t.Errorf("%v %v", ok, err)
	}
}

func TestTasksWouldEachTrainAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		env   vars
		nodes int
		want  string
	}{
		"nothing": {vars{}, 1, ""}, "srun": {underSlurm, 1, "slurm"}, "mpirun": {underOpenMPI, 1, "openmpi"}, "torchrun": {underTorchrun, 1, "torchrun"},
		"one launcher per task": {underSlurm, 5, ""}, "some launchers": {underSlurm, 2, "slurm"}, "a stray WORLD_SIZE": {vars{"WORLD_SIZE": "2"}, 1, ""},
		"a batch script": {underBatch, 1, ""},
	} {
		err := CheckAlone(tc.env.lookup, tc.nodes)
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "trainctl worker")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExpandHosts(t *testing.T) {
	for _, c := range []struct{ list, hosts string }{
		{"a[1-3],b7", "a1 a2 a3 b7"},
		{"node[003-006,9]", "node003 node004 node005 node006 node9"},
		{"n[098-101]", "n098 n099 n100 n101"},
		{"r[1-2]n[1-2]-ib,x", "r1n1-ib r1n2-ib r2n1-ib r2n2-ib x"},
		{"one two", "one two"},
		{"a[1,3-4],b[01],c-d", "a1 a3 a4 b01 c-d"},
	} {
		if got, err := expandHosts(c.list); err != nil || strings.Join(got, " ") != c.hosts {
			t.Errorf("%q: %v %v, want %s", c.list, got, err, c.hosts)
		}
	}
	for _, bad := range []string{"", "a[", "a]1[", "a[x]", "a[3-1]", "a[1-999999999]", "a[1-60000][1-60000]"} {
		if got, err := expandHosts(bad); err == nil {
			t.Errorf("%q: %d hosts", bad, len(got))
		}
	}
}

func FuzzExpandHosts(f *testing.F) {
	for _, s := range []string{"a[1-3],b7", "r[1-2]n[1-2]", "[", "a[0-", "]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if hosts, err := expandHosts(s); err == nil && len(hosts) == 0 {
			t.Errorf("%q: neither hosts nor error", s)
		}
	})
}

func TestWorkerEnv(t *testing.T) {
	w := World{5, 6, 2, 3, 1, 2, "10.0.0.1", 4000, "id", 1, 3, "trainctl"}
	got := WorkerEnv(w, WorkerSettings{Store: "10.0.0.1:4000", Threads: 4})
	want := []string{"RANK=5", "LOCAL_RANK=2", "GROUP_RANK=1", "ROLE_RANK=5", "ROLE_NAME=default", "WORLD_SIZE=6", "LOCAL_WORLD_SIZE=3",
		"GROUP_WORLD_SIZE=2", "ROLE_WORLD_SIZE=6", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=4000", "TORCHELASTIC_RESTART_COUNT=1",
		"TORCHELASTIC_MAX_RESTARTS=3", "TORCHELASTIC_RUN_ID=id", "TORCHELASTIC_USE_AGENT_STORE=True", "TRAINCTL_RUN_ID=id",
		"TRAINCTL_STORE=10.0.0.1:4000", "GOMAXPROCS=4", "OMP_NUM_THREADS=1", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	env := vars{}
	for _, kv := range got {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	if back, err := FromEnv(env.lookup); err != nil || back != w {
		t.Errorf("read back: %+v %v", back, err)
	}
	preset := WorkerEnv(w, WorkerSettings{Inherited: vars{"OMP_NUM_THREADS": "8"}.lookup})
	if slices.ContainsFunc(preset, func(s string) bool { return strings.HasPrefix(s, "OMP_") }) {
		t.Error("a preset OMP_NUM_THREADS was overridden")
	}
	w.LocalSize, w.LocalRank = 1, 0
	if slices.Contains(WorkerEnv(w, WorkerSettings{}), "OMP_NUM_THREADS=1") {
		t.Error("a process alone on its host needs no thread limit")
	}
}

func TestAssignRanks(t *testing.T) {
	first, size := AssignRanks([]int{2, 4, 1})
	if !slices.Equal(first, []int{0, 2, 6}) || size != 7 {
		t.Error(first, size)
	}
}
