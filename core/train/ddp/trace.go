package ddp

import (
	"time"

	"github.com/trainctl/trainctl/core/report/timeline"
)

// Stopwatch is optional for a backend in addition to Collectives: it reports when the
// backend worked on a call. Timed switches it on; Span is of a call that was waited
// for.
type Stopwatch interface {
	Timed()
	Span(ticket uint64) (begin, end time.Time, ok bool)
}

// Trace records the group's collectives, if the backend says when it worked on
// them. A nil recorder records nothing.
func (g *Group) Trace(r *timeline.Recorder) {
	watch, ok := g.comm.(Stopwatch)
	if r == nil || !ok {
		return
	}
	watch.Timed()
	g.watch, g.trace = watch, r
}

// wait waits for a call and records it.
func (g *Group) wait(ticket uint64, name string, bucket int, r Region) error {
	start := time.Now()
	err := g.comm.Wait(ticket)
	g.exposed += time.Since(start)
	if g.trace == nil || err != nil {
		return err
	}
	if begin, end, ok := g.watch.Span(ticket); ok {
		g.trace.Span(timeline.Communication, name, bucket, r.Size, begin, end)
	}
	return nil
}
