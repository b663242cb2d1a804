package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/trainctl/trainctl/core/sdk/pb"
)

// tick is the interval of the supervision and of the plugin's heartbeat.
const tick = 100 * time.Millisecond

// supervise detects that the process died or hangs. It counts its own ticks instead
// of time, so that a plugin is not blamed while this process was stopped too.
func (p *plugin) supervise() {
	defer close(p.watched)
	alive := p.heartbeat()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	missed, limit := 0, max(2, int(p.host.opts.HangTimeout/tick))
	for {
		select {
		case <-p.quit:
			return
		case <-p.proc.dead:
			p.wakeAll()
			return
		case <-ticker.C:
		}
		p.tick()
		missed++
		if alive() {
			missed = 0
		}
		if missed >= limit {
			p.proc.abort(fmt.Errorf("%w: it gives no sign of life for %v", ErrHung, time.Duration(missed)*tick))
		}
	}
}

// heartbeat returns a function that reports a sign of life since its last call: a
// changed counter in shared memory, or an answered ping.
func (p *plugin) heartbeat() func() bool {
	if p.ring != nil {
		last := p.ring.Heartbeat()
		return func() bool {
			now := p.ring.Heartbeat()
			changed := now != last
			last = now
			return changed
		}
	}
	answered := make(chan bool, 1)
	answered <- true
	return func() bool {
		select {
		case ok := <-answered:
			go p.ping(answered)
			return ok
		default:
			return false
		}
	}
}

func (p *plugin) ping(answered chan<- bool) {
	ctx, cancel := context.WithTimeout(context.Background(), p.host.opts.HangTimeout)
	defer cancel()
	_, err := p.rpc.Ping(ctx, &pb.PingRequest{})
	answered <- err == nil || status.Code(err) == codes.Unimplemented
}

// errLate is the cause of a context that ended because a plugin did not return.
var errLate = errors.New("the plugin did not return")

// timely makes a call that the plugin ends after limit by itself; 0 is no limit. A process that does not
// is killed.
func (p *plugin) timely(ctx context.Context, phase string, limit time.Duration, f func(context.Context) error) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit+margin, errLate)
		defer cancel()
	}
	err := f(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errLate) {
		p.abort(fmt.Errorf("%w: %s takes longer than %v", ErrHung, phase, limit))
	}
	return p.error(phase, err)
}

// onDeath registers a function that wakes waiters.
func (p *plugin) onDeath(f func()) {
	p.wakeMu.Lock()
	defer p.wakeMu.Unlock()
	p.wakers = append(p.wakers, f)
}

// onTick registers a function for every tick.
func (p *plugin) onTick(f func()) {
	p.wakeMu.Lock()
	defer p.wakeMu.Unlock()
	p.ticks = append(p.ticks, f)
}

func (p *plugin) tick() {
	p.wakeMu.Lock()
	defer p.wakeMu.Unlock()
	for _, f := range p.ticks {
		f()
	}
}

func (p *plugin) wakeAll() {
	p.wakeMu.Lock()
	defer p.wakeMu.Unlock()
	for _, f := range p.wakers {
		f()
	}
}

func unreachable(err error) bool { return status.Code(err) == codes.Unavailable }

// close ends the plugin: it may finish submitted operations and close within the
// stop timeout; then it is asked for its stacks and its process group is killed. If ctx ends
// first, it is killed at once.
func (p *plugin) close(ctx context.Context, queue queue) error {
	p.closing.Do(func() { p.closeErr = p.stop(ctx, queue) })
	return p.closeErr
}

func (p *plugin) stop(ctx context.Context, queue queue) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.stopIn, errLate)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errLate) {
			p.proc.killHung()
		} else {
			p.proc.killGroup()
		}
	})()
	var err error
	if p.proc.failure() == nil {
		p.proc.retire(ErrClosed)
		err = p.shutdown(ctx)
	} else {
		p.proc.killGroup()
	}
	p.client.Kill() // goes on when the process has ended, which the context sees to
	<-p.proc.dead
	<-p.proc.drained // what it printed last is in the log when close returns
	close(p.quit)
	<-p.watched
	queue.close()
	_ = p.proc.link.Close()
	if p.control != nil {
		p.record.Close(p.ring)
		_ = p.control.Close()
	}
	return err
}

// shutdown lets the plugin finish and close. Operations in flight get half of the
// time and are then aborted.
func (p *plugin) shutdown(ctx context.Context) error {
	drain, cancel := context.WithTimeout(ctx, p.host.opts.StopTimeout/2)
	_, _ = p.rpc.Drain(drain, &pb.DrainRequest{})
	cancel()
	_, err := p.rpc.Shutdown(ctx, &pb.ShutdownRequest{})
	if err == nil || status.Code(err) == codes.Unimplemented {
		return nil
	}
	e := &PluginError{Kind: p.proc.kind, Name: p.proc.name, PID: p.proc.pid(), Phase: "close", Cause: fromStatus(err)}
	late := tooLate(ctx, err)
	switch {
	case late:
		p.proc.endsWithin(2 * lastStack) // it is being asked where it hangs, and killed
	case unreachable(err):
		p.proc.endsWithin(lastMoment)
	}
	if late || p.proc.isDead() {
		e.Cause = p.proc.closeError(late, p.stopIn)
		e.LastLines, e.Stack = p.proc.lastLines(), p.proc.out.Hanging()
	}
	return e
}

// tooLate reports whether a call failed because its time was up. The plugin knows when that is, and may say so
// a moment before ctx ends: tooLate waits for this moment.
func tooLate(ctx context.Context, err error) bool {
	if c := status.Code(err); c == codes.DeadlineExceeded || c == codes.Canceled {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < lastMoment {
			<-ctx.Done()
		}
	}
	return ctx.Err() != nil
}

// overdue describes an operation that has been in flight for at least the given time,
// "" if there is none.
func (p *plugin) overdue(after time.Duration) string {
	if p == nil {
		return ""
	}
	if name := p.record.Overdue(p.ring, after); name != "" {
		return fmt.Sprintf("%s plugin %q: %s has not ended", p.proc.kind, p.proc.name, name)
	}
	return ""
}
