package sdktest

import (
	"context"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
)

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// bounded makes a call with a context that ends in time, and gives up the call
// when it does not return either. What it has started goes on then.
func bounded[T any](ctx context.Context, limit time.Duration, what string, call func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		v, err := call(ctx)
		done <- result{v, err}
	}()
	late := time.NewTimer(limit + limit/4) // a call may need a moment after its context
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		var none T
		return none, fmt.Errorf("%s took longer than %v and ignores its context", what, limit)
	}
}

// boundedErr is bounded for a call that gives nothing but an error.
func boundedErr(ctx context.Context, limit time.Duration, what string, call func(context.Context) error) error {
	_, err := bounded(ctx, limit, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// timedDataset is a data set whose calls take no longer than limit.
type timedDataset struct {
	sdk.Dataset
	limit time.Duration
}

func (d *timedDataset) Open(ctx context.Context, r sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	return bounded(ctx, d.limit, "Open", func(ctx context.Context) (sdk.DatasetSpec, error) { return d.Dataset.Open(ctx, r) })
}

func (d *timedDataset) Fill(ctx context.Context, b *sdk.Batch) error {
	return boundedErr(ctx, d.limit, "Fill", func(ctx context.Context) error { return d.Dataset.Fill(ctx, b) })
}

func (d *timedDataset) Close() error {
	return boundedErr(context.Background(), d.limit, "Close", func(context.Context) error { return d.Dataset.Close() })
}

// timedPrecision is a precision plugin whose calls take no longer than limit.
type timedPrecision struct {
	sdk.Precision
	limit time.Duration
}

func (p *timedPrecision) Policy(ctx context.Context, o sdk.Options) (sdk.Policy, error) {
	return bounded(ctx, p.limit, "Policy", func(ctx context.Context) (sdk.Policy, error) { return p.Precision.Policy(ctx, o) })
}

func (p *timedPrecision) Update(ctx context.Context, foundInf bool) (sdk.ScaleState, error) {
	return bounded(ctx, p.limit, "Update", func(ctx context.Context) (sdk.ScaleState, error) { return p.Precision.Update(ctx, foundInf) })
}

func (p *timedPrecision) State(ctx context.Context) (map[string]float64, error) {
	return bounded(ctx, p.limit, "State", p.Precision.State)
}

func (p *timedPrecision) Load(ctx context.Context, state map[string]float64) error {
	return boundedErr(ctx, p.limit, "Load", func(ctx context.Context) error { return p.Precision.Load(ctx, state) })
}

func (p *timedPrecision) Close() error {
	return boundedErr(context.Background(), p.limit, "Close", func(context.Context) error { return p.Precision.Close() })
}
