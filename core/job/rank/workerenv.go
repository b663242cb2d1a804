package rank

import "strconv"

// WorkerSettings is what a launcher gives its workers in addition to their World,
// except for the secret, which goes through a pipe (secret.Secret.Pipe).
type WorkerSettings struct {
	Store   string // host:port of the store it hosts
	Threads int    // GOMAXPROCS of the worker; 0 leaves it alone

	// Inherited is the environment that the worker inherits. If it sets
	// OMP_NUM_THREADS or TORCH_NCCL_ASYNC_ERROR_HANDLING, WorkerEnv does not. nil is
	// an empty environment.
	Inherited Lookup
}

// WorkerEnv is the environment contract that the launcher sets for one worker:
// torchrun's table (torch/distributed/elastic/agent/server/local_elastic_agent.py
// and torch/distributed/run.py), so that programs written for torchrun start
// too, and trainctl's own variables.
func WorkerEnv(w World, s WorkerSettings) []string {
	num := strconv.Itoa
	env := []string{
		"RANK=" + num(w.Rank), "LOCAL_RANK=" + num(w.LocalRank), "GROUP_RANK=" + num(w.NodeRank),
		"ROLE_RANK=" + num(w.Rank), "ROLE_NAME=default",
		"WORLD_SIZE=" + num(w.Size), "LOCAL_WORLD_SIZE=" + num(w.LocalSize), "GROUP_WORLD_SIZE=" + num(w.Nodes),
		"ROLE_WORLD_SIZE=" + num(w.Size),
		"MASTER_ADDR=" + w.MasterAddr, "MASTER_PORT=" + num(w.MasterPort),
		"TORCHELASTIC_RESTART_COUNT=" + num(w.RestartCount), "TORCHELASTIC_MAX_RESTARTS=" + num(w.MaxRestarts),
		"TORCHELASTIC_RUN_ID=" + w.RunID, "TORCHELASTIC_USE_AGENT_STORE=True",
		EnvRunID + "=" + w.RunID,
	}
	if s.Store != "" {
		env = append(env, EnvStore+"="+s.Store)
	}
	if s.Threads > 0 {
		env = append(env, "GOMAXPROCS="+num(s.Threads))
	}
	return append(env, presets(w, s.Inherited)...)
}

// presets are the variables that torchrun sets only where the user has not.
func presets(w World, inherited Lookup) []string {
	unset := func(name string) bool {
		if inherited == nil {
			return true
		}
		_, ok := inherited(name)
		return !ok
	}
	var env []string
	if w.LocalSize > 1 && unset("OMP_NUM_THREADS") {
		env = append(env, "OMP_NUM_THREADS=1")
	}
	if unset("TORCH_NCCL_ASYNC_ERROR_HANDLING") {
		env = append(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1")
	}
	return env
}
