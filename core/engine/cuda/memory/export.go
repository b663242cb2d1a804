package memory

import (
	"context"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// exported implements [plan.Shared] by an [Arena]: what is enqueued is on the
// device's stream, where programs run.
type exported struct {
	g       *gpu.GPU
	arena   *Arena
	release func() error
	open    int // calls with a Done event that the stream was not told to wait for
}

// MirrorShared implements [plan.Resident].
func (r *Residency) MirrorShared(mem []byte) (_ plan.Shared, note string, err error) {
	g := r.g
	defer g.Enter()()
	a, err := AllocArena(g.CU, g.Dev, len(mem))
	if err != nil {
		return nil, "", err
	}
	x := &exported{g: g, arena: a}
	if x.release, note, err = r.mirror(mem, a.Address(), a.Close); err != nil {
		return nil, "", err
	}
	return x, note, nil
}

// Export implements [plan.Shared].
func (x *exported) Export(inProcess bool) (*contract.DeviceMemory, error) {
	defer x.g.Enter()()
	return x.arena.Export(inProcess)
}

// Attached implements [plan.Shared].
func (x *exported) Attached(m *contract.DeviceMemory) error {
	defer x.g.Enter()()
	x.open = 0
	return x.arena.Attached(m)
}

// Written implements [plan.Shared]. While every Done event is in use, a call
// completes when its result is in memory.
func (x *exported) Written() (ready, done int, err error) {
	if err := x.g.Lost(); err != nil {
		return 0, 0, err
	}
	defer x.g.Enter()()
	why := gpu.Doing("the gradients of a bucket")
	if x.arena.usable() == 0 {
		return 0, 0, x.g.Finish(why)
	}
	if ready, err = x.arena.Written(context.Background(), x.g.Stream); ready > 0 && x.open < x.arena.usable() {
		x.open++
		done = ready
	}
	return ready, done, x.g.Check(err, why)
}

// Follow implements [plan.Shared]. A call of a backend that was replaced has left
// nothing open: its events are gone with it.
func (x *exported) Follow(done int) error {
	if done == 0 || x.open == 0 {
		return nil
	}
	if err := x.g.Lost(); err != nil {
		return err
	}
	x.open--
	defer x.g.Enter()()
	return x.g.Check(x.arena.Follow(x.g.Stream, done), gpu.Doing("a bucket's sum"))
}

// Close implements [plan.Shared]. Work on the copy that is under way ends first;
// on a device that is lost everything is left as it is.
func (x *exported) Close() error {
	if x.g.Lost() != nil {
		return nil
	}
	return x.g.Within(func() error {
		if err := x.g.Finish(gpu.Doing("what works on exported memory")); err != nil {
			return err
		}
		return x.release()
	})
}
