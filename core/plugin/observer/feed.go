package observer

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// gather is how long events wait to be delivered together.
	gather = 500 * time.Millisecond
	// batchLines is how many events are delivered at once, at most.
	batchLines = 1000
)

// feed delivers events to one observer.
type feed struct {
	Plugin
	warn   func(plugin, text string)
	ctx    context.Context // of all calls; ends when the observer may take no more time
	cancel context.CancelFunc
	more   chan struct{} // has room for one
	over   chan struct{} // closed when the run has ended
	done   chan struct{} // closed when the observer has ended

	mu      sync.Mutex
	queue   queue
	all     int // events of the run
	lost    int // events that were not delivered
	untold  int // of these, those that the observer does not know of
	why     string
	summary []byte
	gone    bool // nothing can be delivered any more
	warned  bool // why it is gone
}

func newFeed(p Plugin, warn func(plugin, text string)) *feed {
	f := &feed{Plugin: p, warn: warn, more: make(chan struct{}, 1), over: make(chan struct{}), done: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// add queues an event.
func (f *feed) add(line []byte, step bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all++
	if f.gone {
		f.lost++
		return
	}
	if n := f.queue.add(line, step); n > 0 {
		f.lose(n, "it is slower than the run, and its queue was full")
	}
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// lose counts events that will not be delivered; the first reason is kept. mu is held.
func (f *feed) lose(n int, why string) {
	f.lost += n
	f.untold += n
	if n > 0 && f.why == "" {
		f.why = why
	}
}

// end tells the observer that the run has ended, and limits its time from now on.
func (f *feed) end(summary []byte) *time.Timer {
	f.mu.Lock()
	f.summary = summary
	f.mu.Unlock()
	close(f.over)
	return time.AfterFunc(f.CloseTimeout, f.cancel)
}

func (f *feed) missed() Missed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Missed{Plugin: f.Name, Events: f.lost, Of: f.all, Why: f.why, Warned: f.warned}
}

// run starts the observer, delivers events until the run has ended, and ends it.
func (f *feed) run() {
	defer close(f.done)
	defer f.cancel()
	p, err := f.Start(f.ctx)
	if err != nil {
		f.giveUp(err)
		return
	}
	took := f.deliver(p)
	told := !took && f.missed().Events > 0 // the reason, with what it missed
	if err := p.Close(f.ctx); err != nil && !told {
		f.warn(f.Name, err.Error())
	}
}

// deliver delivers events in batches until the run has ended or the observer is gone. It reports whether the observer took the last one.
func (f *feed) deliver(p Instance) (took bool) {
	for took = true; ; {
		over := f.wait()
		for b := f.next(over); b != nil; b = f.next(over) {
			err := p.Observe(f.ctx, b.lines, b.dropped, b.summary)
			if took = err == nil; took {
				continue
			}
			f.failed(b, err)
			if p.Gone() || f.ctx.Err() != nil {
				f.giveUp(err)
				return false
			}
		}
		if over {
			return took
		}
	}
}

// wait waits for events and lets some more come. It reports whether the run has ended.
func (f *feed) wait() (over bool) {
	select {
	case <-f.more:
	case <-f.over:
		return true
	}
	select {
	case <-time.After(gather):
		return false
	case <-f.over:
		return true
	}
}

// batch are events that are delivered together.
type batch struct {
	lines   [][]byte
	dropped int
	summary []byte
}

// next takes the next batch; nil if there is none. When the run is over, the summary is in the
// last one.
func (f *feed) next(over bool) *batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := &batch{lines: f.queue.take(batchLines), dropped: f.untold}
	if over && f.queue.empty() {
		b.summary, f.summary = f.summary, nil
	}
	if b.lines == nil && b.summary == nil {
		return nil
	}
	f.untold = 0
	return b
}

// failed counts the events of a batch that the observer did not take.
func (f *feed) failed(b *batch, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.untold += b.dropped
	f.lose(len(b.lines), f.reason(err))
}

// giveUp drops the events that are left and all later ones.
func (f *feed) giveUp(err error) {
	f.mu.Lock()
	f.gone = true
	f.lose(len(f.queue.take(0)), f.reason(err))
	if f.why == "" { // for events to come
		f.why = f.reason(err)
	}
	f.warned = f.ctx.Err() == nil || f.lost == 0 // otherwise what it missed is told with the reason
	warn := f.warned
	f.mu.Unlock()
	if warn {
		f.warn(f.Name, fmt.Sprintf("%v; the run continues without this observer", err))
	}
}

// reason is the text of an error.
func (f *feed) reason(err error) string {
	if f.ctx.Err() != nil {
		return fmt.Sprintf("it did not take the rest within close_timeout = %v", f.CloseTimeout)
	}
	return err.Error()
}
