package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// DefaultTimeout is how long a GPU may take for what a rank waits for: a hundred times
// what the longest steps take, and less than peers wait for a collective, so that this
// rank reports the error first.
const DefaultTimeout = 2 * time.Minute

// Watch is how a rank looks after its GPU.
type Watch struct {
	Owner   string        // "rank 3", for errors
	Timeout time.Duration // for whatever is waited for; 0: DefaultTimeout
	// Slow is called once in a wait that takes long, on the goroutine that waits. May be nil.
	Slow func(what string)
}

func (w Watch) timeout() time.Duration {
	if w.Timeout <= 0 {
		return DefaultTimeout
	}
	return w.Timeout
}

// slow is when a wait is worth telling of.
func (w Watch) slow() time.Duration { return min(10*time.Second, w.timeout()/4) }

// poll looks after work that a GPU has been given. CUDA's own waits have no
// deadline: for a kernel that never ends, or the event of a process that has died,
// they do not return. So they are not called; waiting polls instead.
type poll struct {
	cu     *driver.CUDA
	stream driver.Stream
	event  driver.Event // 0: all of the stream
	err    error
	look   func() bool // looks once; made once, because a closure costs memory
	spin   shm.Spinner
}

// spinning is how long a wait keeps the processor, as CUDA's own do to their end.
const spinning = 3 * time.Millisecond

func newPoll(cu *driver.CUDA) *poll {
	p := &poll{cu: cu, spin: shm.Spinner{For: spinning}}
	p.look = func() bool {
		p.err = p.query()
		return !errors.Is(p.err, driver.NotReady)
	}
	return p
}

func (p *poll) query() error {
	if p.event != 0 {
		return p.cu.EventQuery(p.event)
	}
	return p.cu.StreamQuery(p.stream)
}

// until waits for the work. While it takes long, again is called now and then
// with the time since the beginning, and ends the wait by an error.
func (p *poll) until(again func(waited time.Duration) error) error {
	if p.look() {
		return p.err
	}
	begin := time.Now()
	if p.spin.Until(p.look) {
		return p.err
	}
	for {
		waited := time.Since(begin)
		if err := again(waited); err != nil {
			return err
		}
		time.Sleep(min(max(waited/64, 20*time.Microsecond), time.Millisecond))
		if p.look() {
			return p.err
		}
	}
}

// Finish waits until the device's stream has done all its work.
func (g *GPU) Finish(why Activity) error { return g.Await(g.Stream, 0, why) }

// Await waits for an event, or for a stream if that is 0. No answer in time loses the device.
func (g *GPU) Await(s driver.Stream, e driver.Event, why Activity) error {
	if err := g.Lost(); err != nil {
		return err
	}
	p, limit, slow, said := g.poll, g.watch.timeout(), g.watch.slow(), false
	p.stream, p.event = s, e
	err := p.until(func(waited time.Duration) error {
		g.calls.Add(1) // the driver answers
		if waited >= slow && !said && g.watch.Slow != nil {
			said = true
			g.watch.Slow(fmt.Sprintf("a long wait for %s: %v", g.whose(), why))
		}
		if waited >= limit {
			return g.lose(&LostError{What: why.String(), Waited: limit})
		}
		return nil
	})
	return g.Check(err, why)
}

// WaitStream returns when the stream has done all its work, or with ctx's
// cause. A stream that waits for the event of a process that has died may never
// come to its end, so nothing waits for one without a deadline.
func WaitStream(ctx context.Context, cu *driver.CUDA, s driver.Stream) error {
	p := newPoll(cu)
	p.stream = s
	err := p.until(func(time.Duration) error {
		if ctx.Err() != nil {
			return fmt.Errorf("the GPU did not complete its work: %w", context.Cause(ctx))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	return nil
}
