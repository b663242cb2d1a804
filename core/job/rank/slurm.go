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
	triggers: []string{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NNODES"},
	vars: []string{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NNODES", "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE",
		"SLURM_NTASKS_PER_NODE", "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_JOB_ID", "SLURM_STEP_ID",
		"SLURM_JOB_NAME", "SLURM_RESTART_COUNT", "ENVIRONMENT", "MASTER_ADDR", "MASTER_PORT"},
	read: readSlurm,
}

func readSlurm(r *reader) World {
	if !slurmTask(r) {
		refuseShell(r)
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
	w.MaxRestarts = w.RestartCount // SLURM requeues jobs and does not report its limit
	w.LocalSize = slurmLocalSize(r, w)
	w.MasterAddr = slurmMaster(r, w)
	w.MasterPort = slurmPort(r)
	return w
}

// slurmTask reports whether srun started this process as a task of a step. A batch
// script has SLURM_PROCID too, but no step. The shell of salloc has neither, or with
// LaunchParameters=use_interactive_step a step with a special number; some versions
// number the batch script as well (slurm/slurm.h). The job's name does not help.
func slurmTask(r *reader) bool {
	const batchScript, interactive = "4294967291", "4294967290"
	step, in := r.get("SLURM_STEP_ID")
	if in {
		return step != batchScript && step != interactive && r.any("SLURM_PROCID")
	}
	how, _ := r.get("ENVIRONMENT") // set for a batch script and for what it starts
	return how != "BATCH" && r.any("SLURM_PROCID")
}

// refuseShell marks the variables of an allocation, which do not describe a rank.
// In an allocation for several tasks, a process that is not one of them would train
// alone or wait for ranks that never start. Variables of mpirun take precedence.
func refuseShell(r *reader) {
	tasks := max(r.numberOr("SLURM_NTASKS", 1), r.numberOr("SLURM_NNODES", 1))
	switch {
	case r.err != nil:
	case tasks == 1 || !r.any("SLURM_JOB_ID", "SLURM_JOBID"):
		r.err = fmt.Errorf("this process is not a task of srun: %w", errOff)
	default:
		r.err = weak{&EnvError{Source: r.source, Var: "SLURM_STEP_ID", Detail: fmt.Sprintf(
			"the allocation is for %d tasks, and this process is its batch script or shell, not one of them; fix: \"srun trainctl worker CONFIG\" starts all of them, \"trainctl run CONFIG\" only those of this host", tasks)}}
	}
}

func slurmRunID(r *reader) string {
	id := r.textOr("none", "SLURM_JOB_ID", "SLURM_JOBID")
	if step, ok := r.get("SLURM_STEP_ID"); ok {
		id += "." + step
	}
	return id
}

// slurmLocalSize reads "2(x3),1", tasks per node in node order.
// SLURM_NTASKS_PER_NODE is not enough: it is set only if the user requested it.
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
		hosts, err := expandHosts(list)
		if err != nil {
			r.fail(name, "%s: %v", name, err)
			return ""
		}
		return hosts[0]
	}
	if w.Nodes > 1 {
		r.fail("SLURM_JOB_NODELIST", "SLURM_JOB_NODELIST is missing, so the host of rank 0 is unknown")
	}
	return "127.0.0.1"
}

// slurmPort is 15000 plus the last four digits of the job's id, so that two jobs on
// a host rarely get the same, shifted for each step of a job, because steps may run
// at the same time.
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
	const stride = 997 // keeps steps away from the ports of other jobs, whose ids are often close
	step := r.numberOr("SLURM_STEP_ID", 0)
	return 15000 + (n+step%10000*stride)%10000
}
