package rank

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// World is the place of one process in its job. Rank counts over the whole
// job, LocalRank over the processes of one host; both start at 0.
type World struct {
	Rank, Size           int
	LocalRank, LocalSize int

	// NodeRank is the index of this host among the job's hosts, -1 where the
	// environment does not say (Open MPI with ranks mapped across nodes).
	NodeRank, Nodes int

	// MasterAddr and MasterPort are where rank 0 (or the starter of the job)
	// can be reached. Port 0 means that none was chosen, which only a single rank
	// allows.
	MasterAddr string
	MasterPort int

	// RunID is equal on all ranks of a job. It differs between jobs if the launcher
	// provides a unique one.
	RunID string

	// RestartCount is how often the whole group has been restarted so far, out
	// of MaxRestarts.
	RestartCount, MaxRestarts int

	// Source names the environment contract that was read: "trainctl",
	// "torchrun", "openmpi", "mpich", "slurm", "horovod", "kubernetes" or "single".
	Source string
}

// Single is the world of a process that no launcher started as part of a job.
func Single() World {
	return World{Size: 1, LocalSize: 1, Nodes: 1, MasterAddr: "127.0.0.1", RunID: "single", Source: "single"}
}

// masterHostPort joins MasterAddr and MasterPort, with brackets for IPv6.
func (w World) masterHostPort() string {
	return net.JoinHostPort(w.MasterAddr, strconv.Itoa(w.MasterPort))
}

func (w World) String() string {
	return fmt.Sprintf("rank %d of %d (local %d of %d, node %d of %d), from %s",
		w.Rank, w.Size, w.LocalRank, w.LocalSize, w.NodeRank, w.Nodes, w.Source)
}

// Validate reports numbers that contradict each other.
func (w World) Validate() error {
	switch {
	case w.Size < 1:
		return fmt.Errorf("world size is %d, it must be at least 1", w.Size)
	case w.Rank < 0 || w.Rank >= w.Size:
		return fmt.Errorf("rank %d is outside a world of %d", w.Rank, w.Size)
	case w.LocalSize < 1 || w.LocalSize > w.Size:
		return fmt.Errorf("local world size is %d in a world of %d", w.LocalSize, w.Size)
	case w.LocalRank < 0 || w.LocalRank >= w.LocalSize:
		return fmt.Errorf("local rank %d is outside a local world of %d", w.LocalRank, w.LocalSize)
	case w.Nodes < 1 || w.NodeRank < -1 || w.NodeRank >= w.Nodes:
		return fmt.Errorf("node rank %d is outside %d nodes", w.NodeRank, w.Nodes)
	case w.MasterPort < 0 || w.MasterPort > 65535:
		return fmt.Errorf("master port %d is outside 0..65535", w.MasterPort)
	case w.MasterAddr == "":
		return errors.New("master address is empty")
	}
	return nil
}

// AssignRanks gives every node the first of its global ranks: the prefix sum
// of the local world sizes in node order (PyTorch
// torch/distributed/elastic/agent/server/api.py). The second result is the
// world size. Nodes may run different numbers of processes.
func AssignRanks(localSizes []int) (first []int, size int) {
	first = make([]int, len(localSizes))
	for i, n := range localSizes {
		first[i] = size
		size += n
	}
	return first, size
}
