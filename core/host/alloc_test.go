package host_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/host"
	"github.com/trainctl/trainctl/core/sdk"
)

func TestSubmitAndWaitDoNotAllocate(t *testing.T) {
	b, arena := startBackend(t, newHost(t, host.Options{}), "ok", time.Minute)
	c := allReduce(arena, 1, 0, 16)
	allocs := testing.AllocsPerRun(100, func() {
		ticket, err := b.Submit(c)
		must(t, err)
		must(t, b.Wait(ticket))
	})
	equal(t, "allocations", int(allocs), 0)
}

func TestRequestAndWaitDoNotAllocate(t *testing.T) {
	d := newDataset(t, newHost(t, host.Options{}), false)
	defer d.Close(context.Background())
	_, err := d.Open(t.Context(), sdk.DatasetRequest{})
	must(t, err)
	must(t, d.Prepare(2, 8))
	indices := []int64{1, 2, 3}
	allocs := testing.AllocsPerRun(100, func() {
		must(t, d.Request(1, sdk.Train, 0, 0, indices))
		_, _, err := d.Wait(1)
		must(t, err)
	})
	equal(t, "allocations", int(allocs), 0)
}

func BenchmarkCollective(b *testing.B) {
	backend, arena := startBackend(b, newHost(b, host.Options{}), "ok", time.Minute)
	c := allReduce(arena, 1, 0, 1)
	for b.Loop() {
		ticket, err := backend.Submit(c)
		must(b, err)
		must(b, backend.Wait(ticket))
	}
}

// BenchmarkStart starts three plugins at once, as a rank does.
func BenchmarkStart(b *testing.B) {
	h := newHost(b, host.Options{})
	for b.Loop() {
		var started errgroup.Group
		var back *host.Backend
		var data *host.Dataset
		var prec *host.Precision
		started.Go(func() (err error) { back, err = h.StartBackend(b.Context(), "fake"); return err })
		started.Go(func() (err error) { data, err = h.StartDataset(b.Context(), "fake"); return err })
		started.Go(func() (err error) { prec, err = h.StartPrecision(b.Context(), "fake"); return err })
		must(b, started.Wait())
		b.StopTimer()
		must(b, back.Close(b.Context()))
		must(b, data.Close(b.Context()))
		must(b, prec.Close(b.Context()))
		b.StartTimer()
	}
}
