package cuda

import (
	"context"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// loan implements [plan.Lent] by an [Arena]: what is enqueued is on the
// device's stream, where programs run.
type loan struct {
	dev     *Device
	arena   *Arena
	release func() error
	open    int // calls with a Done event that the stream was not told to wait for
}

// Lend implements [plan.Resident].
func (d *Device) Lend(mem []byte) (_ plan.Lent, note string, err error) {
	defer d.enter()()
	a, err := AllocArena(d.cu, d.dev, len(mem))
	if err != nil {
		return nil, "", err
	}
	l := &loan{dev: d, arena: a}
	if l.release, note, err = d.mirror(mem, a.Address(), a.Close); err != nil {
		return nil, "", err
	}
	return l, note, nil
}

// Export implements [plan.Lent].
func (l *loan) Export(inProcess bool) (*contract.DeviceMemory, error) {
	defer l.dev.enter()()
	return l.arena.Export(inProcess)
}

// Attached implements [plan.Lent].
func (l *loan) Attached(m *contract.DeviceMemory) error {
	defer l.dev.enter()()
	l.open = 0
	return l.arena.Attached(m)
}

// Written implements [plan.Lent]. While every Done event is in use, a call
// completes when its result is in memory.
func (l *loan) Written() (ready, done int, err error) {
	if err := l.dev.gone(); err != nil {
		return 0, 0, err
	}
	defer l.dev.enter()()
	why := to("the gradients of a bucket")
	if l.arena.inTurn() == 0 {
		return 0, 0, l.dev.finish(why)
	}
	if ready, err = l.arena.Written(context.Background(), l.dev.stream); ready > 0 && l.open < l.arena.inTurn() {
		l.open++
		done = ready
	}
	return ready, done, l.dev.told(err, why)
}

// Follow implements [plan.Lent]. A call of a backend that was replaced has left
// nothing open: its events are gone with it.
func (l *loan) Follow(done int) error {
	if done == 0 || l.open == 0 {
		return nil
	}
	if err := l.dev.gone(); err != nil {
		return err
	}
	l.open--
	defer l.dev.enter()()
	return l.dev.told(l.arena.Follow(l.dev.stream, done), to("a bucket's sum"))
}

// Close implements [plan.Lent]. Work on the copy that is under way ends first;
// on a device that is lost everything is left as it is.
func (l *loan) Close() error {
	if l.dev.gone() != nil {
		return nil
	}
	return l.dev.within(func() error {
		if err := l.dev.finish(to("what works on lent memory")); err != nil {
			return err
		}
		return l.release()
	})
}
