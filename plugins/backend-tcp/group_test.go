package tcp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// ranks starts a group in this process. With arenaSize > 0 every rank has an
// arena of that size.
func ranks(t testing.TB, world, arenaSize int, o sdk.Options) ([]*Backend, []*sdk.Arena) {
	t.Helper()
	return ranksOf(t, world, arenaSize, o, New)
}

func ranksOf(t testing.TB, world, arenaSize int, o sdk.Options, newRank func() *Backend) ([]*Backend, []*sdk.Arena) {
	t.Helper()
	all, arenas, endpoints := make([]*Backend, world), make([]*sdk.Arena, world), make([][]byte, world)
	for r := range all {
		all[r] = newRank()
		t.Cleanup(func() { all[r].Close() })
		g := testGroup(r, world)
		if err := all[r].Open(t.Context(), g, o); err != nil {
			t.Fatal(err)
		}
		if arenaSize > 0 {
			a, err := shm.New("test", arenaSize)
			if err != nil {
				t.Fatal(err)
			}
			arenas[r] = &sdk.Arena{ID: 1, Name: "test", Arena: a}
			t.Cleanup(func() { all[r].Close(); a.Close() })
			if err := all[r].Attach(t.Context(), arenas[r]); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if endpoints[r], err = all[r].Listen(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := together(world, func(r int) error { return all[r].Connect(context.Background(), endpoints) }); err != nil {
		t.Fatal(err)
	}
	return all, arenas
}

func testGroup(rank, world int) sdk.Group {
	return sdk.Group{JobID: "job", Secret: []byte("secret"), Rank: rank, WorldSize: world, LocalRank: rank,
		LocalSize: world, Timeout: time.Minute, MasterAddr: "127.0.0.1"}
}

func together(world int, f func(rank int) error) error {
	errs := make([]error, world)
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() { errs[r] = f(r) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func sumOf(buf []byte, a *sdk.Arena, seq int) *sdk.Collective {
	return &sdk.Collective{Seq: uint64(seq), Op: sdk.OpAllReduce, DType: tensor.F32, Count: len(buf) / 4, Arena: a, Buf: buf}
}

// A rank sends 2(n-1)/n of the buffer, whatever the segments, in a ring and in
// a mesh.
func TestBytesOnTheWire(t *testing.T) {
	for _, a := range []string{algorithmRing, algorithmMesh} {
		t.Run(a, func(t *testing.T) { testBytesOnTheWire(t, a) })
	}
}

func testBytesOnTheWire(t *testing.T, algorithm string) {
	for _, w := range []int{2, 3, 4, 5} {
		all, _ := ranks(t, w, 0, sdk.Options{"shm": false, "segment_bytes": int64(64 << 10), "algorithm": algorithm})
		for _, b := range all { // measuring the network sent some
			b.sent.payload.Store(0)
			b.sent.headers.Store(0)
		}
		size := w * 300_032
		err := together(w, func(r int) error { return all[r].Do(t.Context(), sumOf(make([]byte, size), nil, 1)) })
		if err != nil {
			t.Fatal(err)
		}
		for r, b := range all {
			if got, want := b.sent.payload.Load(), int64(2*(w-1)*size/w); got != want {
				t.Errorf("rank %d of %d sent %d bytes of payload, want %d", r, w, got, want)
			}
			if h := b.sent.headers.Load(); h > int64(size)/100 {
				t.Errorf("rank %d of %d sent %d bytes of headers for %d", r, w, h, size)
			}
		}
	}
}

// A repeated all-reduce allocates nothing, in shared memory and with every algorithm
// over sockets.
func TestSteadyAllocatesNothing(t *testing.T) {
	ways := append([]string{"shm"}, anyOrder...)
	for _, way := range ways {
		for _, size := range []int{1 << 10, 1 << 20} {
			o := sdk.Options{"shm": way == "shm"}
			if way != "shm" {
				o["algorithm"] = way
			}
			all, arenas := ranks(t, 2, size, o)
			if way == "shm" && all[0].local == nil {
				t.Log("no shared memory on this system")
				continue
			}
			if n := allocations(t, all, arenas); n != 0 {
				t.Errorf("%s, %d bytes: %v allocations per all-reduce", way, size, n)
			}
		}
	}
}

// allocations are those of both ranks in one all-reduce.
func allocations(t *testing.T, all []*Backend, arenas []*sdk.Arena) float64 {
	const runs, before = 50, 3
	do := func(r int, c *sdk.Collective) {
		c.Seq++
		if err := all[r].Do(context.Background(), c); err != nil {
			t.Error(err)
		}
	}
	mine, its := sumOf(arenas[0].Bytes(), arenas[0], 0), sumOf(arenas[1].Bytes(), arenas[1], 0)
	other := make(chan struct{})
	go func() {
		defer close(other)
		for range before + runs + 1 {
			do(1, its)
		}
	}()
	for range before { // memory that is reused
		do(0, mine)
	}
	n := testing.AllocsPerRun(runs, func() { do(0, mine) })
	<-other
	return n
}

// If one rank has a private buffer, all ranks use sockets.
func TestPartlyPrivate(t *testing.T) {
	const size = 1 << 18
	all, arenas := ranks(t, 3, size, nil)
	bufs := [][]byte{arenas[0].Bytes(), make([]byte, size), arenas[2].Bytes()}
	for r, buf := range bufs {
		for i := range tensor.View[float32](buf) {
			tensor.View[float32](buf)[i] = float32(r + i)
		}
	}
	err := together(3, func(r int) error {
		c := sumOf(bufs[r], arenas[r], 1)
		if r == 1 {
			c.Arena = nil
		}
		return all[r].Do(t.Context(), c)
	})
	if err != nil {
		t.Fatal(err)
	}
	for r, buf := range bufs {
		for i, x := range tensor.View[float32](buf) {
			if x != float32(3+3*i) {
				t.Fatalf("rank %d, element %d: %v", r, i, x)
			}
		}
	}
}

// Close ends a collective and a Connect that wait for others.
func TestCloseWhileWaiting(t *testing.T) {
	for _, shared := range []bool{true, false} {
		all, _ := ranks(t, 2, 0, sdk.Options{"shm": shared})
		done := make(chan error)
		go func() { done <- all[0].Do(context.Background(), sumOf(make([]byte, 64), nil, 1)) }()
		all[0].Close()
		if err := <-done; err == nil {
			t.Error("a collective of one rank succeeded")
		}
	}
	lone := New()
	if err := lone.Open(t.Context(), testGroup(0, 2), nil); err != nil {
		t.Fatal(err)
	}
	mine, err := lone.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	its := instance.Encode(endpoint{Endpoint: instance.Endpoint{Version: endpointVersion, Rank: 1}, TCP: "127.0.0.1:9"})
	done := make(chan error)
	go func() { done <- lone.Connect(context.Background(), [][]byte{mine, its}) }()
	lone.Close()
	if err := <-done; err == nil {
		t.Error("Connect without the other rank succeeded")
	}
}

func TestCancel(t *testing.T) {
	for _, shared := range []bool{true, false} {
		all, _ := ranks(t, 2, 0, sdk.Options{"shm": shared})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := all[0].Do(ctx, sumOf(make([]byte, 64), nil, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("shm %v: %v", shared, err)
		}
	}
}

func BenchmarkAllReduce(b *testing.B) {
	for _, way := range []string{"shm", "tcp"} {
		for _, size := range []int{4 << 10, 1 << 20, 25 << 20} {
			b.Run(way+"/"+map[int]string{4 << 10: "4KiB", 1 << 20: "1MiB", 25 << 20: "25MiB"}[size], func(b *testing.B) {
				all, arenas := ranks(b, 2, size, sdk.Options{"shm": way == "shm"})
				b.SetBytes(int64(size))
				times := make([]time.Duration, 0, b.N)
				b.ResetTimer()
				err := together(2, func(r int) error {
					for i := range b.N {
						start := time.Now()
						if err := all[r].Do(context.Background(), sumOf(arenas[r].Bytes(), arenas[r], i+1)); err != nil {
							return err
						}
						if r == 0 {
							times = append(times, time.Since(start))
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-µs")
			})
		}
	}
}

// If a plugin process is killed, the others that wait for it name it immediately, not at
// their deadline, with sockets and with shared memory.
func TestKilledPeer(t *testing.T) {
	for name, shared := range map[string]bool{"shared": true, "sockets": false} {
		t.Run(name, func(t *testing.T) {
			const world, victim = 3, 1
			backends := processes(t, world, sdk.Options{"shm": shared})
			waiting := make(chan error, world)
			for r, b := range backends {
				if r == victim {
					continue
				}
				ticket, err := b.Submit(&sdk.Collective{Seq: 1, Op: sdk.OpAllReduce, DType: tensor.F32, Count: 4, Buf: make([]byte, 16)})
				if err != nil {
					t.Fatal(err)
				}
				go func() { waiting <- b.Wait(ticket) }()
			}
			if err := syscall.Kill(backends[victim].PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for range world - 1 {
				var dead *sdk.PeerError
				if err := <-waiting; !errors.As(err, &dead) || dead.Peer != victim {
					t.Errorf("%v does not name rank %d", err, victim)
				}
			}
		})
	}
}

// processes starts a group of plugin processes without arenas.
func processes(t *testing.T, world int, o sdk.Options) []*host.Backend {
	t.Helper()
	h := plugins(pb.EnvDataPlane + "=inline")
	all, endpoints := make([]*host.Backend, world), make([][]byte, world)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for r := range all {
		b, err := h.StartBackend(ctx, "tcp")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close(context.Background()) })
		if err := b.Open(ctx, testGroup(r, world), o); err != nil {
			t.Fatal(err)
		}
		if endpoints[r], err = b.Listen(ctx); err != nil {
			t.Fatal(err)
		}
		all[r] = b
	}
	if err := together(world, func(r int) error { return all[r].Connect(ctx, endpoints) }); err != nil {
		t.Fatal(err)
	}
	return all
}
