package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// endpoint describes a rank to the others.
type endpoint struct {
	instance.Endpoint
	Library string `json:"library"` // its version
	Port    int    `json:"port,omitempty"`
}

const endpointVersion = 1

// Check returns what is wrong with the port.
func (e endpoint) Check() error {
	if e.Port < 0 || e.Port > 65535 {
		return fmt.Errorf("port %d", e.Port)
	}
	return nil
}

// Listen says which library this rank has, and where rank 0 compares the ranks' calls.
func (b *Backend) Listen(ctx context.Context) ([]byte, error) {
	if err := b.life.BeginOpen(b.thread != nil); err != nil {
		return nil, err
	}
	defer b.life.End()
	port, err := b.member.Listen(ctx, b.set.Ports, b.log())
	if err != nil {
		return nil, fmt.Errorf("backend mpi: %w", err)
	}
	return instance.Encode(endpoint{instance.Endpoint{Version: endpointVersion, Rank: b.group.Rank}, b.lib.version, port}), nil
}

// Connect checks that the ranks have one library, waits for all of them, and starts MPI.
func (b *Backend) Connect(ctx context.Context, endpoints [][]byte) error {
	if err := b.life.BeginOpen(b.thread != nil); err != nil {
		return err
	}
	defer b.life.End()
	all, err := instance.ParseEndpoints[endpoint](endpoints, b.group.WorldSize, endpointVersion)
	if err != nil {
		return fmt.Errorf("backend mpi: %w", err)
	}
	for _, e := range all {
		if e.Library != all[0].Library {
			return fmt.Errorf("backend mpi: rank 0 has %s and rank %d has %s; all ranks need the same library: set backend.options.library", all[0].Library, e.Rank, e.Library)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, b.set.Connect)
	defer cancel()
	if err := b.member.Join(ctx, all[0].Port); err != nil {
		return err
	}
	if err := b.thread.Run(b.start, ctx, b.life.Context); err != nil {
		b.life.Failed = err
		b.member.Report(err)
		return fmt.Errorf("backend mpi: starting MPI (%s): %w", b.lib.version, err)
	}
	b.member.Library = b
	if b.group.Rank == 0 {
		b.log().Info("MPI", "version", b.lib.version, "library", b.lib.path, "reproducible", b.set.reproducible)
	}
	return nil
}

// started is set when this process has called MPI_Init_thread, which it may do once.
var started atomic.Bool

var errStartedTwice = errors.New("this process has been part of MPI before, and a process can join it only once; start a new process")

// start makes this process an MPI process, and a communicator of the ranks in their order.
// It runs on the thread.
func (b *Backend) start() error {
	if started.Swap(true) {
		return errStartedTwice
	}
	// Go's runtime handles the signals for which Open MPI would install handlers.
	if _, set := os.LookupEnv(envSignals); !set {
		if err := os.Setenv(envSignals, ""); err != nil {
			return err
		}
	}
	l := b.lib
	var level, world, rank int32
	if err := l.InitThread(0, 0, threadFunneled, &level); err != nil {
		return err
	}
	l.running = true
	if level < threadFunneled {
		return fmt.Errorf("the library supports no process with several threads (level %d, MPI_THREAD_FUNNELED is needed); install one that was built with threads", level)
	}
	if err := errors.Join(l.CommSetErrhandler(l.world, l.errorsReturn), l.CommSize(l.world, &world)); err != nil {
		return err
	}
	if int(world) != b.group.WorldSize {
		return fmt.Errorf("MPI has started %d processes, and the job has %d ranks; start one rank per MPI process, with the mpirun that belongs to %s", world, b.group.WorldSize, l.path)
	}
	var comm handle
	if err := l.CommSplit(l.world, 0, int32(b.group.Rank), &comm); err != nil {
		return err
	}
	if err := errors.Join(l.CommSetErrhandler(comm, l.errorsReturn), l.CommRank(comm, &rank)); err != nil {
		return err
	}
	if int(rank) != b.group.Rank {
		return fmt.Errorf("this process became rank %d of MPI instead of rank %d: two ranks have the same number", rank, b.group.Rank)
	}
	b.comm = comm
	return nil
}

// envSignals lists the signals that Open MPI prints stacks for.
const envSignals = "OMPI_MCA_opal_signal"
