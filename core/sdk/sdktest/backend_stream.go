package sdktest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/contract/contracttest"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// streamCalls is the length of the sequence in stream.
const streamCalls = 60

// streamCounts are sizes for which backends use different algorithms.
var streamCounts = []int{0, 1, 7, 500, 9_000, 20_000, 70_000}

// stream has every rank run a sequence of mixed collectives at its own pace: one may be a
// call or two ahead of another, and their data must not be mixed up.
func (r results) stream(t *testing.T) {
	r.need(t, sdk.OpAllReduce)
	r.needType(t, tensor.F32)
	calls := r.streamOf()
	want := make([]func() [][]byte, len(calls))
	for i, c := range calls {
		want[i] = sync.OnceValue(func() [][]byte { return streamWant(c, i, r.g.world) })
	}
	first := r.g.seq
	r.g.all("stream", func(ctx context.Context, rank int) error {
		for i, c := range calls {
			call := r.g.place(c, rank, first+uint64(i)+1, streamInput(c, i, rank, r.g.world))
			if err := r.g.call(ctx, rank, call); err != nil {
				return err
			}
			if err := r.streamCheck(c, i, rank, call.Buf, want[i]); err != nil {
				return err
			}
		}
		return nil
	})
	r.g.seq += streamCalls
}

// streamOf draws the sequence, equal on all ranks.
func (r results) streamOf() (calls []sdk.Collective) {
	ops := append(slices.DeleteFunc(sdk.Ops(), func(o sdk.Op) bool { return o.Definition().Kind == contract.OfPair }), sdk.OpAllReduce)
	most := 0
	for _, n := range r.Counts {
		most = max(most, n)
	}
	for i := range streamCalls {
		x := mix(uint64(i))
		c := sdk.Collective{Op: ops[x%uint64(len(ops))], DType: tensor.F32, Root: int(x>>8) % r.g.world, Bucket: i % 3}
		c.Count = min(streamCounts[x>>16%uint64(len(streamCounts))], most)
		if !r.can(c.Op) {
			c.Op = sdk.OpAllReduce
		}
		if c.Count /= max(1, c.Op.Definition().Parts(r.g.world)); c.Op == sdk.OpBarrier {
			c.Count = 0
		}
		calls = append(calls, c)
	}
	return calls
}

func streamInput(c sdk.Collective, i, rank, world int) []byte {
	return values(c.DType, c.Size(world)/4, rank, 100+i)
}

// streamWant is what all ranks should have after a call.
func streamWant(c sdk.Collective, i, world int) [][]byte {
	call := c.Call()
	return contracttest.Results(&call, eachRank(world, func(rank int) []byte { return streamInput(c, i, rank, world) }))
}

// streamCheck compares one rank's result with what it should be.
func (r results) streamCheck(c sdk.Collective, i, rank int, got []byte, all func() [][]byte) error {
	if c.Op == sdk.OpBarrier {
		return nil
	}
	call := c.Call()
	got, want := contracttest.Result(&call, rank, got), contracttest.Result(&call, rank, all()[rank])
	if bytes.Equal(got, want) {
		return nil
	}
	if d := differ(c.DType, got, want, r.slack(c.Reduce)); d != "" {
		return fmt.Errorf("call %d of the stream, %v on rank %d of %d: %s", i, &c, rank, r.g.world, d)
	}
	return nil
}
