package rank

import (
	"fmt"
	"strconv"
	"strings"
)

// slurm is what srun gives to each task. It sets no address: rank 0 is on the
// first host of the node list, and the port follows from the job's id as in
// Lightning (src/lightning/fabric/plugins/environments/slurm.py).
var slurm = contract{
	source:   "slurm",
	triggers: []string{"SLURM_PROCID"},
	vars: []string{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NNODES", "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE",
		"SLURM_NTASKS_PER_NODE", "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_JOB_ID", "SLURM_STEP_ID",
		"SLURM_JOB_NAME", "SLURM_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"},
	read: readSlurm,
}

func readSlurm(r *reader) World {
	// srun alone numbers a step's tasks. In a batch script, or the shell of salloc,
	// SLURM_PROCID says nothing of ranks; the name of the job never does.
	if step, _ := r.get("SLURM_STEP_ID"); step == "4294967291" || step == "4294967290" {
		r.err = fmt.Errorf("SLURM_STEP_ID is that of a batch script or an interactive shell, not of srun's tasks: %w", errOff)
		return World{}
	}
	size := "SLURM_NTASKS"
	if r.any("SLURM_STEP_NUM_TASKS") { // SLURM_NTASKS may be the allocation's
		size = "SLURM_STEP_NUM_TASKS"
	}
	w := World{
		Rank: r.number("SLURM_PROCID"), Size: r.number(size),
		LocalRank: r.number("SLURM_LOCALID"), NodeRank: r.numberOr("SLURM_NODEID", 0), Nodes: r.numberOr("SLURM_NNODES", 1),
		RestartCount: r.numberOr("SLURM_RESTART_COUNT", 0),
		RunID:        slurmRunID(r), Source: r.source,
	}
	w.MaxRestarts = w.RestartCount // requeueing is SLURM's business; it does not say how often
	w.LocalSize = slurmLocalSize(r, w)
	w.MasterAddr = slurmMaster(r, w)
	w.MasterPort = slurmPort(r)
	return w
}

func slurmRunID(r *reader) string {
	id := r.textOr("none", "SLURM_JOB_ID", "SLURM_JOBID")
	if step, ok := r.get("SLURM_STEP_ID"); ok {
		id += "." + step
	}
	return id
}

// slurmLocalSize reads "2(x3),1", tasks per node in node order.
// SLURM_NTASKS_PER_NODE alone would not do: it is unset unless asked for.
func slurmLocalSize(r *reader, w World) int {
	name := "SLURM_STEP_TASKS_PER_NODE"
	if !r.any(name) {
		name = "SLURM_TASKS_PER_NODE"
	}
	if spec, ok := r.get(name); ok {
		n, err := taskCount(spec, w.NodeRank)
		if err != nil {
			r.fail(name, "%s: %v", name, err)
		}
		return n
	}
	if w.Nodes == 1 {
		return w.Size
	}
	if r.any("SLURM_NTASKS_PER_NODE") {
		return r.number("SLURM_NTASKS_PER_NODE")
	}
	if w.Nodes > 0 && w.Size%w.Nodes == 0 {
		return w.Size / w.Nodes
	}
	r.fail("SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE is missing, and %d tasks do not divide evenly over %d nodes", w.Size, w.Nodes)
	return 0
}

func taskCount(spec string, node int) (int, error) {
	left := node
	for part := range strings.SplitSeq(spec, ",") {
		count, repeat, found := strings.Cut(strings.TrimSuffix(part, ")"), "(x")
		n, err := strconv.Atoi(count)
		times := 1
		if err == nil && found {
			times, err = strconv.Atoi(repeat)
		}
		if err != nil {
			return 0, fmt.Errorf("cannot read %q in %q", part, spec)
		}
		if left < times {
			return n, nil
		}
		left -= times
	}
	return 0, fmt.Errorf("%q has no entry for node %d", spec, node)
}

func slurmMaster(r *reader, w World) string {
	if addr, ok := r.get("MASTER_ADDR"); ok {
		return addr
	}
	for _, name := range []string{"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"} {
		list, ok := r.get(name)
		if !ok {
			continue
		}
		hosts, err := ExpandHosts(list)
		if err != nil {
			r.fail(name, "%s: %v", name, err)
			return ""
		}
		return hosts[0]
	}
	if w.Nodes > 1 {
		r.fail("SLURM_JOB_NODELIST", "SLURM_JOB_NODELIST is missing, so rank 0's host is not known")
	}
	return "127.0.0.1"
}

// slurmPort is 15000 plus the last four digits of the job's id, so that two
// jobs on a host rarely meet.
func slurmPort(r *reader) int {
	if r.any("MASTER_PORT") {
		return r.port("MASTER_PORT")
	}
	id := r.textOr("", "SLURM_JOB_ID", "SLURM_JOBID")
	if id == "" {
		return 12910
	}
	n, err := strconv.Atoi(id[max(0, len(id)-4):])
	if err != nil || n < 0 {
		r.fail("SLURM_JOB_ID", "SLURM_JOB_ID is %q, not a number", id)
	}
	return 15000 + n
}
