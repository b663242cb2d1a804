package host_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/plugin/host"
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

// BenchmarkStart measures from the call to a plugin that can be opened: one,
// and three at once as a rank starts them.
func BenchmarkStart(b *testing.B) {
	h := newHost(b, host.Options{})
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprintf("%d at once", n), func(b *testing.B) {
			for b.Loop() {
				running := make([]*host.Backend, n)
				var started errgroup.Group
				for i := range n {
					started.Go(func() (err error) { running[i], err = h.StartBackend(b.Context(), "fake"); return err })
				}
				must(b, started.Wait())
				b.StopTimer()
				for _, r := range running {
					must(b, r.Close(b.Context()))
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkDeath measures from SIGKILL to the error of a waiting call.
func BenchmarkDeath(b *testing.B) {
	h := newHost(b, host.Options{})
	for b.Loop() {
		b.StopTimer()
		backend, arena := startBackend(b, h, "deaf", time.Minute)
		ticket, err := backend.Submit(allReduce(arena, 1, 0, 1))
		must(b, err)
		b.StartTimer()
		must(b, syscall.Kill(backend.PID(), syscall.SIGKILL))
		if backend.Wait(ticket) == nil {
			b.Fatal("no error")
		}
		b.StopTimer()
		_ = backend.Close(b.Context())
		b.StartTimer()
	}
}
