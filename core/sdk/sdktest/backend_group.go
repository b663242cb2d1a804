package sdktest

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// defaultCallTimeout is the default of BackendOptions.CallTimeout.
const defaultCallTimeout = 60 * time.Second

// group is a running process group, one backend per rank.
type group struct {
	t           testing.TB
	world       int
	timeout     time.Duration
	callTimeout time.Duration // for calls that must return
	backends    []sdk.Backend
	arenas      []*sdk.Arena // by rank, nil with private buffers
	seq         uint64
}

// arenaSize holds the largest buffer that the suite puts into an arena, and an
// offset before it.
func (b *backendSuite) arenaSize(world int) int {
	most := 40_000 // of checks with their own sizes
	for _, n := range b.Counts {
		most = max(most, n)
	}
	return 4096 + max(8*most, 8*1000*world)
}

// start starts a group. timeout bounds each collective.
func (b *backendSuite) start(t testing.TB, world int, arenas bool, timeout time.Duration) *group {
	t.Helper()
	return b.startWith(t, world, arenas, timeout, nil, nil)
}

// startWith is start with functions that change a rank's group before Open and attach
// more memory. Either may be nil.
func (b *backendSuite) startWith(t testing.TB, world int, arenas bool, timeout time.Duration, describe func(rank int, g *sdk.Group), attach func(ctx context.Context, rank int, b sdk.Backend) error) *group {
	t.Helper()
	g := &group{t: t, world: world, timeout: timeout, callTimeout: b.CallTimeout}
	if b.NewGroup != nil {
		g.backends = b.NewGroup(t, world)
	}
	t.Cleanup(g.close)
	options, problems := sdk.CheckOptions("backend.options", b.info.Options, b.Options)
	if len(problems) > 0 {
		t.Fatalf("options: %v", problems)
	}
	for len(g.backends) < world {
		g.backends = append(g.backends, b.New(t))
	}
	if arenas && !b.NoArena {
		g.makeArenas(b.arenaSize(world))
	}
	job, secret := rand.Text(), []byte(rand.Text())
	endpoints := make([][]byte, world)
	g.all("set-up", func(ctx context.Context, rank int) (err error) {
		who := sdk.Group{
			JobID: job, Secret: secret, Generation: 1, Rank: rank, WorldSize: world,
			LocalRank: rank, LocalSize: world, Timeout: timeout, MasterAddr: "127.0.0.1",
		}
		if describe != nil {
			describe(rank, &who)
		}
		endpoints[rank], err = g.listen(ctx, rank, who, options, attach)
		return err
	})
	g.all("Connect", func(ctx context.Context, rank int) error {
		return g.backends[rank].Connect(ctx, endpoints)
	})
	return g
}

func (g *group) listen(ctx context.Context, rank int, group sdk.Group, o sdk.Options, attach func(context.Context, int, sdk.Backend) error) ([]byte, error) {
	b := g.backends[rank]
	if err := b.Open(ctx, group, o); err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	if g.arenas != nil {
		if err := b.Attach(ctx, g.arenas[rank]); err != nil {
			return nil, fmt.Errorf("attach: %w", err)
		}
	}
	if attach != nil {
		if err := attach(ctx, rank, b); err != nil {
			return nil, fmt.Errorf("attach: %w", err)
		}
	}
	endpoint, err := b.Listen(ctx)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return endpoint, nil
}

func (g *group) makeArenas(size int) {
	g.t.Helper()
	for rank := range g.world {
		a, err := shm.New(fmt.Sprintf("suite-%d", rank), size)
		if err != nil {
			g.t.Fatal(err)
		}
		g.arenas = append(g.arenas, &sdk.Arena{ID: 7, Name: "suite", Arena: a})
	}
}

// close closes all ranks, then their memory.
func (g *group) close() {
	var wg sync.WaitGroup
	for _, b := range g.backends {
		wg.Go(func() {
			if err := b.Close(); err != nil {
				g.t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	for _, a := range g.arenas {
		a.Close()
	}
	g.showLogs()
}

// showLogs adds the last lines of the ranks' processes to the output of a check
// that failed.
func (g *group) showLogs() {
	if !g.t.Failed() {
		return
	}
	for rank, b := range g.backends {
		if w, ok := b.(*remoteBackend); ok {
			w.log.show(g.t, rank)
		}
	}
}

// errors runs f for every rank at once and returns the errors. If ranks
// do not return, the error names them: processes are killed then, and for instances in
// this process the test binary ends with the stacks of all goroutines.
func (g *group) errors(what string, f func(ctx context.Context, rank int) error) []error {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), g.callTimeout)
	defer cancel()
	errs, ended := make([]error, g.world), make(chan int, g.world)
	hanging := map[int]bool{}
	for rank := range g.world {
		hanging[rank] = true
		go func() { errs[rank] = f(ctx, rank); ended <- rank }()
	}
	late := time.After(g.callTimeout + 5*time.Second)
	for len(hanging) > 0 {
		select {
		case rank := <-ended:
			delete(hanging, rank)
		case <-late:
			g.hangs(what, slices.Sorted(maps.Keys(hanging)))
		}
	}
	return errs
}

// hangs ends a check whose ranks do not return.
func (g *group) hangs(what string, ranks []int) {
	g.t.Helper()
	if _, remote := g.backends[0].(*remoteBackend); remote {
		g.t.Fatalf("%s: ranks %v did not return within %v", what, ranks, g.callTimeout)
	}
	stacks := make([]byte, 1<<20)
	panic(fmt.Sprintf("%s hangs on ranks %v\n%s", what, ranks, stacks[:runtime.Stack(stacks, true)]))
}

// all is errors for calls that must succeed.
func (g *group) all(what string, f func(ctx context.Context, rank int) error) {
	g.t.Helper()
	for rank, err := range g.errors(what, f) {
		if err != nil {
			g.t.Fatalf("%s on rank %d of %d: %v", what, rank, g.world, err)
		}
	}
}

// buffer gives a rank memory for n bytes, in its arena if there is one.
func (g *group) buffer(rank, offset, n int) (*sdk.Arena, int, []byte) {
	if g.arenas == nil {
		return nil, 0, tensor.Bytes(make([]uint64, (n+7)/8))[:n:n]
	}
	a := g.arenas[rank]
	if n == 0 {
		return a, offset, nil
	}
	return a, offset, a.Bytes()[offset:][:n:n]
}

// place fills in the memory of a call and the bytes before it.
func (g *group) place(c sdk.Collective, rank int, seq uint64, input []byte) *sdk.Collective {
	c.Seq = seq
	c.Arena, c.Offset, c.Buf = g.buffer(rank, 8*int(seq%37), len(input)) // at the start of a cache line now and then
	copy(c.Buf, input)
	return &c
}

// do runs c on all ranks with the given bytes and returns the bytes after it.
func (g *group) do(c sdk.Collective, inputs [][]byte) [][]byte {
	g.t.Helper()
	outputs := make([][]byte, g.world)
	g.seq++
	seq := g.seq
	g.all(c.String(), func(ctx context.Context, rank int) error {
		call := g.place(c, rank, seq, inputs[rank])
		err := g.call(ctx, rank, call)
		outputs[rank] = append([]byte(nil), call.Buf...)
		return err
	})
	return outputs
}

// call is Do with the collective's deadline.
func (g *group) call(ctx context.Context, rank int, c *sdk.Collective) error {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	return g.backends[rank].Do(ctx, c)
}

func worldName(w int) string { return fmt.Sprintf("%d ranks", w) }
