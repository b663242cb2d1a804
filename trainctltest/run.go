package trainctltest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/trainctl/trainctl"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
)

// Result is a run's result and the losses of its steps.
type Result struct {
	*trainctl.Result
	Losses []float64 // the mean over ranks after each step
}

// Run trains on ranks that are goroutines, with the given backend, and fails the test at once if that
// fails. The log of the run goes to the test's log. Nothing is left of the run when it returns.
func Run(t testing.TB, cfg trainctl.Config, ranks int, backend func() sdk.Backend, options ...trainctl.Option) *Result {
	t.Helper()
	r, err := Try(t, cfg, ranks, backend, options...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Try is Run for a run that may fail. The error is that of trainctl.Run, which wraps the error of the
// rank that failed first.
func Try(t testing.TB, cfg trainctl.Config, ranks int, backend func() sdk.Backend, options ...trainctl.Option) (*Result, error) {
	t.Helper()
	dir := ""
	if !trainctl.IsRank() {
		dir = t.TempDir()
	}
	events, read := make(chan trainctl.Event), make(chan []float64)
	go func() { read <- losses(events) }()
	all := []trainctl.Option{
		trainctl.Threads(), trainctl.Ranks(ranks), trainctl.Backend(backend), trainctl.Log(t.Output()),
		trainctl.Set(fmt.Sprintf("run.dir=%q", dir)), trainctl.Events(events),
	}
	r, err := trainctl.Run(t.Context(), cfg, append(all, options...)...)
	return &Result{r, <-read}, err
}

// losses reads all events of a run.
func losses(events <-chan trainctl.Event) (all []float64) {
	for e := range events {
		if step, is := e.Event.(*trainctl.StepDone); is {
			all = append(all, step.LossMean)
		}
	}
	return all
}

// Memory returns a backend for ranks that are goroutines of one process. It adds in the order of the
// ranks, as TCP does, and gives the same bits.
func Memory() func() sdk.Backend { return membackend.NewWorld().New }

// Intercept returns a backend that calls before with every collective of every rank, before the
// backend does it. An error fails the collective, and with it the rank. before is called concurrently
// by several ranks.
func Intercept(backend func() sdk.Backend, before func(*sdk.Collective) error) func() sdk.Backend {
	return func() sdk.Backend { return &intercepted{backend(), before} }
}

type intercepted struct {
	sdk.Backend
	before func(*sdk.Collective) error
}

// Do implements sdk.Backend.
func (b *intercepted) Do(ctx context.Context, c *sdk.Collective) error {
	if err := b.before(c); err != nil {
		return err
	}
	return b.Backend.Do(ctx, c)
}

// Counter counts collectives by operation. Pass its method Count to [Intercept].
type Counter struct {
	mu   sync.Mutex
	seen map[sdk.Op]int
}

// Count counts a collective.
func (c *Counter) Count(call *sdk.Collective) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[sdk.Op]int{}
	}
	c.seen[call.Op]++
	return nil
}

// Of returns the number of collectives of an operation, over all ranks.
func (c *Counter) Of(op sdk.Op) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[op]
}
