package mpi

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/agreement"
	"github.com/trainctl/trainctl/plugins/internal/clib"
	"github.com/trainctl/trainctl/plugins/internal/instance"
	"github.com/trainctl/trainctl/plugins/internal/reduce"
)

// Backend is one rank's end of a process group. It implements [sdk.Backend].
// Methods are called from one goroutine, except Close, which may be called at any
// time and ends the running call.
type Backend struct {
	// Log gets the library's version and warnings. Nil means slog.Default.
	Log *slog.Logger

	finder  *dl.Finder
	segment int // bytes, see defaultSegment
	life    *instance.State

	group  sdk.Group
	set    settings
	lib    *library
	thread *clib.Thread
	member *agreement.Member

	// Used on the thread.
	comm    handle // of the ranks, in their order; 0 before MPI_Init_thread
	counts  counts
	frames  region // of the ranks' calls
	stage   region // of private buffers
	scratch region // of what other ranks send
	srcs    [][]byte
	spin    shm.Spinner
}

// New returns the plugin "mpi".
func New() *Backend {
	return &Backend{finder: dl.System(), segment: defaultSegment, life: instance.New("mpi"), spin: shm.Spinner{For: spinFor}}
}

// Info describes the plugin.
func (b *Backend) Info() sdk.Info {
	return sdk.Info{
		Kind: sdk.KindBackend, Name: "mpi", Version: "1.0.0",
		Summary:     "collectives by the site's MPI library, under mpirun or srun",
		Options:     options(),
		DTypes:      reduce.DTypes(),
		Devices:     []string{"cpu"},
		Ops:         sdk.Ops(),
		Determinism: "bitwise",
	}
}

// Place implements [sdk.Placer]. A process joins MPI once in its life, and no other process
// can take its rank.
func (b *Backend) Place(r sdk.PlaceRequest) (sdk.Placement, error) {
	if r.Restarts > 0 {
		return sdk.Placement{}, usererr.List{{Detail: "MPI cannot replace a process, so the backend mpi excludes backend.restarts and launch.elastic",
			Help: "set both to 0 and false; --resume auto continues an aborted job from its newest checkpoint"}}.Err()
	}
	return sdk.Placement{}, nil
}

// Open checks the options and opens the library. It does not start MPI, which waits for
// the other ranks.
func (b *Backend) Open(_ context.Context, group sdk.Group, o sdk.Options) error {
	if err := b.life.Begin(); err != nil {
		return err
	}
	defer b.life.End()
	if b.thread != nil {
		return errors.New("backend mpi: opened twice")
	}
	set, err := readSettings(o)
	if err != nil {
		return err
	}
	if err := b.life.CheckGroup(group); err != nil {
		return err
	}
	launcher := launcherOf(os.LookupEnv)
	if group.WorldSize > 1 && launcher == nil {
		return errNoLauncher
	}
	thread := clib.StartThread("MPI")
	err = thread.Run(func() (err error) { b.lib, err = load(b.finder, set.library, launcher); return err }, b.life.Context)
	if err != nil {
		thread.Stop()
		return err
	}
	b.group, b.set, b.thread = group, set, thread
	b.member = agreement.New(b.life, group)
	b.member.Remote = func(err error) bool { return errors.As(err, new(*callError)) }
	b.counts = newCounts(group.WorldSize)
	b.srcs = make([][]byte, group.WorldSize)
	return nil
}

// Attach has nothing to do: MPI takes any memory.
func (b *Backend) Attach(context.Context, *sdk.Arena) error {
	if err := b.life.Begin(); err != nil {
		return err
	}
	b.life.End()
	return nil
}

// leaveTime is how long a rank that has trained waits for the others, one of which may
// still write the last checkpoint: mpirun counts a process that ends without MPI_Finalize
// as crashed.
const leaveTime = 10 * time.Second

// StopTimeout is how long Close may take.
const StopTimeout = leaveTime + clib.Budget + time.Second

// Close ends the instance in any state. It leaves MPI only if all ranks do: otherwise
// MPI_Finalize would wait for ranks that do not come, and the end of the process has to do.
func (b *Backend) Close() error {
	if !b.life.Close() {
		return nil
	}
	defer b.life.End()
	if b.thread == nil {
		return nil
	}
	defer b.thread.Stop()
	defer b.member.Close()
	if b.comm == 0 || b.life.Failed != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if !b.member.Leave(ctx) {
		b.log().Info("left MPI without MPI_Finalize, because not all ranks leave")
		return nil
	}
	if err := b.thread.Run(b.lib.Finalize, b.life.Context); err != nil { // the context has ended, so Run waits for its budget
		b.log().Warn("leaving MPI", "cause", err)
	}
	return nil
}

func (b *Backend) log() *slog.Logger { return b.life.Log(b.Log, b.group.Rank) }

var (
	_ sdk.Backend = (*Backend)(nil)
	_ sdk.Placer  = (*Backend)(nil)

	_ agreement.Library = (*Backend)(nil)
)
