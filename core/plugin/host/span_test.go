package host_test

import (
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
)

// A timed collective's span lies between its submission and the end of the
// wait; one that is not timed has none.
func TestSpan(t *testing.T) {
	onEveryPlane(t, func(t *testing.T, h *host.Host, inside bool) {
		b := newBackend(t, h, inside)
		arena := openBackend(t, b, "ok", time.Minute)
		for seq, timed := range []bool{false, true, true} {
			if timed {
				b.Timed()
			}
			before := time.Now().Round(0)
			ticket, err := b.Submit(allReduce(arena, uint64(seq+1), 64, 2))
			must(t, err)
			must(t, b.Wait(ticket))
			begin, end, ok := b.Span(ticket)
			if ok != timed {
				t.Fatalf("call %d: a span is there: %v", seq, ok)
			}
			if ok && (begin.Before(before) || end.Before(begin) || end.After(time.Now())) {
				t.Errorf("call %d: from %v to %v, submitted at %v", seq, begin, end, before)
			}
		}
		if _, _, ok := b.Span(99); ok {
			t.Error("a collective that was never made has a span")
		}
		must(t, b.Close(t.Context()))
	})
}
