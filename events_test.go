package trainctl

import (
	"context"
	"testing"
	"testing/synctest"
)

// A forwarder whose events were all read leaves no goroutine behind, also with a context that never
// ends. One whose reader has gone away ends with the context.
func TestForwardersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan Event)
		f := forward(context.Background(), events)
		f.Emit(Event{Event: &StepDone{Step: 1}})
		f.Close()
		n := 0
		for range events {
			n++
		}
		if n != 1 {
			t.Errorf("%d events", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := forward(ctx, make(chan Event))
		f.Emit(Event{Event: &StepDone{Step: 1}})
		f.Close()
		cancel()
	})
}
