package sdktest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
)

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// timed limits the calls of one instance.
type timed struct {
	limit time.Duration
	lost  atomic.Bool // a call has not returned: no other call may be made
}

// errLost is the error of calls after one that has not returned.
var errLost = errors.New("an earlier call has not returned")

// bounded makes a call with a deadline. If the call does not return soon after it,
// bounded returns an error; the instance then gets no other call.
func bounded[T any](ctx context.Context, t *timed, what string, call func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if t.lost.Load() {
		return none, errLost
	}
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		v, err := call(ctx)
		done <- result{v, err}
	}()
	late := time.NewTimer(t.limit + t.limit/4) // a call may need some time after its context ends
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		t.lost.Store(true)
		return none, fmt.Errorf("%s took longer than %v and ignores its context", what, t.limit)
	}
}

// boundedErr is bounded for a call that returns only an error.
func boundedErr(ctx context.Context, t *timed, what string, call func(context.Context) error) error {
	_, err := bounded(ctx, t, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// bound is boundedErr of the instance.
func (t *timed) bound(ctx context.Context, what string, call func(context.Context) error) error {
	return boundedErr(ctx, t, what, call)
}

// timedDataset is a data set whose calls take no longer than limit.
type timedDataset struct {
	sdk.Dataset
	timed
}

func (d *timedDataset) Open(ctx context.Context, r sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	return bounded(ctx, &d.timed, "Open", func(ctx context.Context) (sdk.DatasetSpec, error) { return d.Dataset.Open(ctx, r) })
}

func (d *timedDataset) Fill(ctx context.Context, b *sdk.Batch) error {
	return boundedErr(ctx, &d.timed, "Fill", func(ctx context.Context) error { return d.Dataset.Fill(ctx, b) })
}

func (d *timedDataset) Close() error {
	return boundedErr(context.Background(), &d.timed, "Close", func(context.Context) error { return d.Dataset.Close() })
}

// timedPrecision is a precision plugin whose calls take no longer than limit.
type timedPrecision struct {
	sdk.Precision
	timed
}

func (p *timedPrecision) Policy(ctx context.Context, o sdk.Options) (sdk.Policy, error) {
	return bounded(ctx, &p.timed, "Policy", func(ctx context.Context) (sdk.Policy, error) { return p.Precision.Policy(ctx, o) })
}

func (p *timedPrecision) Update(ctx context.Context, foundInf bool) (sdk.ScaleState, error) {
	return bounded(ctx, &p.timed, "Update", func(ctx context.Context) (sdk.ScaleState, error) { return p.Precision.Update(ctx, foundInf) })
}

func (p *timedPrecision) State(ctx context.Context) (map[string]float64, error) {
	return bounded(ctx, &p.timed, "State", p.Precision.State)
}

func (p *timedPrecision) Load(ctx context.Context, state map[string]float64) error {
	return boundedErr(ctx, &p.timed, "Load", func(ctx context.Context) error { return p.Precision.Load(ctx, state) })
}

func (p *timedPrecision) Close() error {
	return boundedErr(context.Background(), &p.timed, "Close", func(context.Context) error { return p.Precision.Close() })
}
