package rank

import (
	"fmt"
	"net"
	"strconv"
)

// defaultPort is PyTorch's for env:// (torch/distributed/run.py).
const defaultPort = 29500

// torchrun is the contract of PyTorch's elastic launcher
// (torch/distributed/elastic/agent/server/local_elastic_agent.py), and of
// trainctl's own launcher, which sets the same variables and its store.
var torchrun = contract{
	source:   "torchrun",
	triggers: []string{"RANK", "LOCAL_RANK", "WORLD_SIZE", EnvStore},
	vars: []string{"RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
		"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_USE_AGENT_STORE", EnvStore, EnvRunID},
	read: readTorchrun,
}

func readTorchrun(r *reader) World {
	if r.any(EnvStore) {
		r.source = "trainctl"
	}
	if refuseWeak(r) || refusePodRank(r) {
		return World{}
	}
	w := World{
		Rank: r.number("RANK"), Size: r.number("WORLD_SIZE"),
		LocalRank: r.number("LOCAL_RANK"), LocalSize: r.number("LOCAL_WORLD_SIZE"),
		MasterAddr: r.text("MASTER_ADDR"), MasterPort: r.port("MASTER_PORT"),
		RunID:        r.textOr("none", "TORCHELASTIC_RUN_ID"),
		RestartCount: r.numberOr("TORCHELASTIC_RESTART_COUNT", 0),
		MaxRestarts:  r.numberOr("TORCHELASTIC_MAX_RESTARTS", 0),
		Source:       r.source,
	}
	guess, nodes := nodeOf(w)
	w.NodeRank = r.numberOr("GROUP_RANK", guess)
	w.Nodes = r.numberOr("GROUP_WORLD_SIZE", max(nodes, w.NodeRank+1))
	return w
}

// refuseWeak marks a set that consists only of WORLD_SIZE.
func refuseWeak(r *reader) bool {
	if r.any("RANK", "LOCAL_RANK", EnvStore) {
		return false
	}
	err := &EnvError{Source: r.source, Var: "RANK", Detail: "WORLD_SIZE is set, RANK is missing"}
	r.err = fmt.Errorf("%w (on its own it %w)", err, errWeak)
	return true
}

// refusePodRank refuses the numbers that Kubeflow's PyTorchJob sets per pod, which
// are not ranks of processes.
func refusePodRank(r *reader) bool {
	if r.any("LOCAL_RANK") || !r.any("KUBERNETES_SERVICE_HOST") || !r.any("RANK") {
		return false
	}
	r.fail("LOCAL_RANK", "LOCAL_RANK is missing; in a Kubernetes pod RANK and WORLD_SIZE count pods, not processes: start the ranks with \"trainctl run\", which uses them as --node-rank and --nnodes")
	return true
}

// nodeOf computes the node of a rank, assuming that ranks are assigned host by
// host, the default of every launcher; -1 where the numbers contradict that.
func nodeOf(w World) (node, nodes int) {
	if w.LocalSize < 1 {
		return 0, 1
	}
	nodes = (w.Size + w.LocalSize - 1) / w.LocalSize
	if nodes <= 1 {
		return 0, 1
	}
	if w.Rank%w.LocalSize != w.LocalRank {
		return -1, nodes
	}
	return w.Rank / w.LocalSize, nodes
}

// openMPI is what mpirun of Open MPI sets. OMPI_COMM_WORLD_NODE_RANK is the rank
// inside the node, not the node's index, so it is not used.
var openMPI = contract{
	source:   "openmpi",
	triggers: []string{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	vars: []string{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
		"PMIX_NAMESPACE", "MASTER_ADDR", "MASTER_PORT"},
	read: func(r *reader) World {
		return readMPI(r, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE")
	},
}

// mpich is what Hydra, the process manager of MPICH and Intel MPI, sets.
var mpich = contract{
	source:   "mpich",
	triggers: []string{"PMI_RANK", "PMI_SIZE"},
	vars:     []string{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID", "MASTER_ADDR", "MASTER_PORT"},
	read: func(r *reader) World {
		if slurmTask(r) && !r.any("MPI_LOCALRANKID") {
			r.err = fmt.Errorf("set by srun --mpi=pmi2: %w", errOff)
			return World{}
		}
		return readMPI(r, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID")
	},
}

func readMPI(r *reader, rank, size, localRank, localSize, job string) World {
	requirePair(r, rank, size)
	w := World{
		Rank: r.number(rank), Size: r.number(size),
		LocalRank: r.number(localRank), LocalSize: r.number(localSize),
		RunID: r.textOr("none", job), Source: r.source,
	}
	w.NodeRank, w.Nodes = nodeOf(w)
	readMaster(r, &w)
	return w
}

// requirePair gives the most common incomplete set its own message.
func requirePair(r *reader, rank, size string) {
	switch hasRank, hasSize := r.any(rank), r.any(size); {
	case hasRank && !hasSize:
		r.fail(size, "rank without size: %s is set, %s is missing", rank, size)
	case hasSize && !hasRank:
		r.fail(rank, "size without rank: %s is set, %s is missing", size, rank)
	}
}

// readMaster is for launchers that do not set the address of rank 0: on one host it
// is this host, on several the user must set MASTER_ADDR.
func readMaster(r *reader, w *World) {
	w.MasterPort = defaultPort
	if r.any("MASTER_PORT") {
		w.MasterPort = r.port("MASTER_PORT")
	}
	if w.LocalSize == w.Size {
		w.MasterAddr = r.textOr("127.0.0.1", "MASTER_ADDR")
		return
	}
	w.MasterAddr, _ = r.get("MASTER_ADDR")
	if w.MasterAddr == "" {
		r.fail("MASTER_ADDR", "MASTER_ADDR is missing: %d of %d ranks run on this host, and no variable gives the host of rank 0; fix: set MASTER_ADDR to the name of that host on all ranks (\"mpirun -x MASTER_ADDR=HOST\")", w.LocalSize, w.Size)
	}
}

// horovod is what horovodrun sets (horovod/runner/gloo_run.py). Its rendezvous
// address is the driver's, not rank 0's, and is left alone.
var horovod = contract{
	source:   "horovod",
	triggers: []string{"HOROVOD_RANK", "HOROVOD_SIZE"},
	vars: []string{"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE",
		"MASTER_ADDR", "MASTER_PORT"},
	read: readHorovod,
}

func readHorovod(r *reader) World {
	requirePair(r, "HOROVOD_RANK", "HOROVOD_SIZE")
	w := World{
		Rank: r.number("HOROVOD_RANK"), Size: r.number("HOROVOD_SIZE"),
		LocalRank: r.number("HOROVOD_LOCAL_RANK"), LocalSize: r.number("HOROVOD_LOCAL_SIZE"),
		NodeRank: r.number("HOROVOD_CROSS_RANK"), Nodes: r.number("HOROVOD_CROSS_SIZE"),
		RunID: "none", Source: r.source,
	}
	readMaster(r, &w)
	return w
}

// Node is the place of one launcher among the hosts of a job, as far as it is known.
type Node struct {
	Rank, Nodes int    // Nodes is 0 where neither is known
	Endpoint    string // host:port of node 0's launcher; empty if unknown
	Source      string // the variable that identified the environment
}

// NodeFromEnv reads the variables that Kubernetes operators set for the launcher in
// a pod. Kubeflow Trainer v2 sets the address in PET_MASTER_ADDR and
// PET_MASTER_PORT; its other PET_ variables are ordinary torchrun flags. PyTorchJob
// v1 counts pods in RANK and WORLD_SIZE; without LOCAL_RANK these are not a rank's
// environment. ok is false when neither is set.
func NodeFromEnv(env Lookup) (n Node, ok bool, err error) {
	r := &reader{env: env, source: "kubeflow"}
	switch {
	case r.any("JOB_COMPLETION_INDEX") && !r.any("RANK", "LOCAL_RANK", "PET_NODE_RANK"):
		n = indexedNode(r)
	case r.any("PET_MASTER_ADDR"):
		n = Node{Endpoint: readEndpoint(r, "PET_MASTER_ADDR", "PET_MASTER_PORT"), Source: "PET_MASTER_ADDR"}
	case r.any("RANK") && r.any("KUBERNETES_SERVICE_HOST") && !r.any("LOCAL_RANK"):
		r.source = "pytorchjob"
		n = Node{Rank: r.number("RANK"), Nodes: r.number("WORLD_SIZE"), Endpoint: readEndpoint(r, "MASTER_ADDR", "MASTER_PORT"), Source: "RANK"}
		if n.Nodes < 1 || n.Rank >= n.Nodes {
			r.failIf(fmt.Errorf("RANK is %d and WORLD_SIZE is %d", n.Rank, n.Nodes))
		}
	default:
		return Node{}, false, nil
	}
	return n, true, r.err
}

// indexedNode reads a pod of an Indexed Job of Kubernetes. Kubernetes sets only its
// index; the user sets the number of pods and the address of the first.
func indexedNode(r *reader) Node {
	r.source = "kubernetes"
	n := Node{Rank: r.number("JOB_COMPLETION_INDEX"), Source: "JOB_COMPLETION_INDEX"}
	for _, size := range []string{"PET_NNODES", "WORLD_SIZE"} {
		if n.Nodes == 0 && r.any(size) {
			n.Nodes = r.largest(size)
		}
	}
	for _, prefix := range []string{"PET_", ""} {
		if n.Endpoint == "" && r.any(prefix+"MASTER_ADDR") {
			n.Endpoint = readEndpoint(r, prefix+"MASTER_ADDR", prefix+"MASTER_PORT")
		}
	}
	if n.Nodes == 0 {
		r.fail("PET_NNODES", "JOB_COMPLETION_INDEX is %d, and no variable gives the number of pods that train together; fix: set PET_NNODES to the Job's completions, or unset JOB_COMPLETION_INDEX if each pod trains separately", n.Rank)
	} else if n.Rank >= n.Nodes {
		r.fail("PET_NNODES", "JOB_COMPLETION_INDEX is %d, and the job has %d pods", n.Rank, n.Nodes)
	}
	return n
}

// indexedJob is a pod of an Indexed Job of Kubernetes that is one rank.
var indexedJob = contract{
	source:   "kubernetes",
	triggers: []string{"JOB_COMPLETION_INDEX"},
	vars:     []string{"JOB_COMPLETION_INDEX", "PET_NNODES", "WORLD_SIZE", "PET_MASTER_ADDR", "PET_MASTER_PORT", "MASTER_ADDR", "MASTER_PORT"},
	read:     readIndexedJob,
}

func readIndexedJob(r *reader) World {
	n := indexedNode(r)
	w := World{Rank: n.Rank, Size: n.Nodes, LocalSize: 1, NodeRank: n.Rank, Nodes: n.Nodes, MasterAddr: "127.0.0.1", MasterPort: defaultPort, RunID: "none", Source: r.source}
	if n.Endpoint == "" {
		if n.Nodes > 1 {
			r.fail("MASTER_ADDR", "MASTER_ADDR is missing; fix: set it to the host name of the first of the %d pods, NAME-0.SERVICE, which runs rank 0", n.Nodes)
		}
		return w
	}
	host, port, err := net.SplitHostPort(n.Endpoint)
	r.failIf(err)
	w.MasterAddr = host
	w.MasterPort, err = strconv.Atoi(port)
	r.failIf(err)
	return w
}

// CheckAlone refuses a launcher that was started several times at once, for example
// by srun: each would train a separate job. nodes is how many launchers the job has.
func CheckAlone(env Lookup, nodes int) error {
	w, err := FromEnv(env)
	if err != nil || w.Size <= 1 || w.Size == max(1, nodes) {
		return nil // the variables do not describe ranks, so they do not concern a launcher
	}
	return &EnvError{Source: w.Source, Detail: fmt.Sprintf(
		"%d tasks were started, and each would launch a separate job; fix: start \"trainctl worker\" instead of \"trainctl run\", so that each task is one rank", w.Size)}
}

func readEndpoint(r *reader, addr, port string) string {
	w := World{MasterAddr: r.text(addr), MasterPort: defaultPort}
	if r.any(port) {
		w.MasterPort = r.port(port)
	}
	return w.masterHostPort()
}
