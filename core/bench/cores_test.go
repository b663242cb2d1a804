package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// Two threads have a rate for each loop and a round trip; one has nobody to pass a line to.
func TestCores(t *testing.T) {
	for _, threads := range []int{1, 2} {
		r, err := Cores(t.Context(), threads, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Rates) != 1+len(bandwidthSizes) {
			t.Errorf("%d loops, want the multiply-adds and %d sizes", len(r.Rates), len(bandwidthSizes))
		}
		for _, c := range r.Rates {
			if c.One <= 0 || c.All <= 0 || c.Times <= 0 {
				t.Errorf("%d threads: %+v", threads, c)
			}
		}
		if passed := r.RoundTrip > 0; passed != (threads > 1) {
			t.Errorf("%d threads: a round trip takes %v ns", threads, r.RoundTrip)
		}
		var text bytes.Buffer
		if err := r.Text(&text); err != nil {
			t.Fatal(err)
		}
		if says := strings.Contains(text.String(), "a cache line takes"); says != (threads > 1) {
			t.Errorf("%d threads:\n%s", threads, &text)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Cores(ended, 2, time.Millisecond); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}
