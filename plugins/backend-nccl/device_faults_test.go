package nccl

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// team is two ranks with an arena on a GPU each, and their backends.
type team struct {
	t        *testing.T
	m        *fakegpu.Machine
	gpus     []*computing
	arenas   []*sdk.Arena
	backends []sdk.Backend
	group    sdk.Group
}

const arenaSize = 4096

// teamOf starts two ranks with backends from make.
func teamOf(t *testing.T, m *fakegpu.Machine, inProcess bool, make func(rank int) sdk.Backend) *team {
	t.Helper()
	k := &team{t: t, m: m, group: sdk.Group{JobID: "job", Secret: []byte("secret"), WorldSize: 2, LocalSize: 2, MasterAddr: "127.0.0.1", Timeout: 10 * time.Second, Channels: 2}}
	for rank := range 2 {
		g := newComputing(t, m.CUDA(), rank, arenaSize)
		memory, err := g.Export(inProcess)
		if err != nil {
			t.Fatal(err)
		}
		k.gpus = append(k.gpus, g)
		k.arenas = append(k.arenas, &sdk.Arena{ID: 1, Name: "gradients", Device: memory})
		k.backends = append(k.backends, make(rank))
	}
	t.Cleanup(k.close)
	k.connect()
	return k
}

func (k *team) close() {
	for rank := range k.gpus {
		if err := errors.Join(k.backends[rank].Close(), k.gpus[rank].Close()); err != nil {
			k.t.Error(err)
		}
	}
}

// connect takes the backends from Open to where they can work.
func (k *team) connect() {
	k.t.Helper()
	endpoints := make([][]byte, 2)
	k.must(k.each(func(ctx context.Context, rank int) (err error) {
		g := k.group
		g.Rank, g.LocalRank, g.Device = rank, rank, k.gpus[rank].UUID()
		b := k.backends[rank]
		if err := errors.Join(b.Open(ctx, g, nil), b.Attach(ctx, k.arenas[rank])); err != nil {
			return err
		}
		endpoints[rank], err = b.Listen(ctx)
		return errors.Join(err, k.gpus[rank].Attached(k.arenas[rank].Device))
	}))
	k.must(k.each(func(ctx context.Context, rank int) error { return k.backends[rank].Connect(ctx, endpoints) }))
}

func (k *team) each(f func(ctx context.Context, rank int) error) []error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	errs := make([]error, 2)
	over := make(chan struct{})
	for rank := range errs {
		go func() { errs[rank] = f(ctx, rank); over <- struct{}{} }()
	}
	<-over
	<-over
	return errs
}

func (k *team) must(errs []error) {
	k.t.Helper()
	if err := errors.Join(errs...); err != nil {
		k.t.Fatal(err)
	}
}

// reduce sums 100 numbers in the arenas.
func (k *team) reduce(ctx context.Context, rank int, seq uint64, early bool) (done int, err error) {
	g := k.gpus[rank]
	if err := g.Write(0, tensor.Bytes(slices.Repeat([]float32{float32(rank + 1)}, 100))); err != nil {
		return 0, err
	}
	c := sdk.Collective{Seq: seq, Op: sdk.OpAllReduce, DType: tensor.F32, Count: 100, Bucket: 2, Arena: k.arenas[rank]}
	if c.Ready, err = g.Written(ctx); err != nil {
		return 0, err
	}
	if early {
		c.Done = c.Ready
	}
	return c.Done, k.backends[rank].Do(ctx, &c)
}

// check reads what the last sum has left.
func (k *team) check(ctx context.Context, rank int) error {
	got := make([]float32, 100)
	if err := k.gpus[rank].Read(ctx, 0, tensor.Bytes(got)); err != nil {
		return err
	}
	if want := slices.Repeat([]float32{3}, 100); !slices.Equal(got, want) {
		return errors.New("the sum is wrong")
	}
	return nil
}

func inOneProcess(t *testing.T) *team {
	m := fakegpu.New(2)
	k := teamOf(t, m, true, func(int) sdk.Backend { return onFake(m, 23000) })
	return k
}

// The rank records its event behind a kernel that does not end: the call has
// its deadline, and every rank learns whose GPU it was.
func TestAnEventThatNeverHappensIsAStall(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		k := inOneProcess(t)
		release := k.m.Block(k.gpus[1].stream)
		errs := k.each(func(ctx context.Context, rank int) error {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := k.reduce(short, rank, 1, early)
			if err != nil || !early {
				return err
			}
			return k.backends[rank].Do(ctx, &sdk.Collective{Seq: 2, Op: sdk.OpBarrier}) // brings what became of it
		})
		for rank, err := range errs {
			var stall *sdk.StallError
			var peer *sdk.PeerError
			switch {
			case errors.As(err, &stall) && slices.Equal(stall.Missing, []int{1}):
			case early && errors.As(err, &peer):
			default:
				t.Errorf("early %v, rank %d: %v", early, rank, err)
			}
			if rank == 1 && !strings.Contains(err.Error(), "the GPU of rank 1 has not written") {
				t.Errorf("rank 1: %v", err)
			}
		}
		release()
	}
}

// What was completed early and then hangs is ended at its deadline: the rank's
// stream goes on, and the next call fails with the reason.
func TestAnIssuedCollectiveHasADeadline(t *testing.T) {
	t.Parallel()
	k := inOneProcess(t)
	k.m.Absent(1)
	k.must(k.each(func(ctx context.Context, rank int) error {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		done, err := k.reduce(short, rank, 1, true)
		if err != nil {
			return err
		}
		if err := k.gpus[rank].Follow(done); err != nil {
			return err
		}
		return k.gpus[rank].Read(ctx, 0, make([]byte, 4)) // without a call of the backend meanwhile
	}))
	for rank, err := range k.each(func(ctx context.Context, rank int) error {
		_, err := k.reduce(ctx, rank, 2, false)
		return err
	}) {
		if !errors.As(err, new(*sdk.StallError)) && !errors.As(err, new(*sdk.PeerError)) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// Close in the middle leaves nothing behind, whatever was issued.
func TestCloseWithIssuedCollectives(t *testing.T) {
	t.Parallel()
	m := machine(t, 2)
	k := teamOf(t, m, true, func(int) sdk.Backend { return onFake(m, 23000) })
	k.m.Absent(1)
	k.must(k.each(func(ctx context.Context, rank int) error {
		_, err := k.reduce(ctx, rank, 1, true)
		return err
	}))
}

// inProcesses is a team whose backends are plugin processes.
func inProcesses(t *testing.T) (*team, []*host.Backend) {
	m, h := served(t, 2)
	var plugins []*host.Backend
	k := teamOf(t, m, false, func(int) sdk.Backend {
		b, err := h.StartBackend(t.Context(), executable(t))
		if err != nil {
			t.Fatal(err)
		}
		plugins = append(plugins, b)
		return process{b}
	})
	return k, plugins
}

// process is a backend in another process.
type process struct{ *host.Backend }

func (p process) Do(_ context.Context, c *sdk.Collective) error {
	ticket, err := p.Submit(c)
	if err != nil {
		return err
	}
	return p.Wait(ticket)
}

func (p process) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return p.Backend.Close(ctx)
}

// A backend dies in the middle of a collective. The arenas outlive it: new
// processes with the next epoch map the same ones and go on. What the old ones
// had handed out is of no use any more.
func TestABackendIsReplacedUnderItsArenas(t *testing.T) {
	t.Parallel()
	k, plugins := inProcesses(t)
	k.must(k.each(func(ctx context.Context, rank int) error {
		done, err := k.reduce(ctx, rank, 1, true)
		return errors.Join(err, k.gpus[rank].Follow(done), k.check(ctx, rank))
	}))
	old := k.arenas[1].Device.Done
	release := k.m.Block(k.gpus[1].stream) // so that no rank finishes
	errs := k.each(func(ctx context.Context, rank int) error {
		if rank == 1 {
			time.AfterFunc(100*time.Millisecond, func() { _ = syscall.Kill(plugins[1].PID(), syscall.SIGKILL) })
		}
		_, err := k.reduce(ctx, rank, 2, false)
		return err
	})
	release()
	if !errors.Is(errs[1], host.ErrDied) {
		t.Errorf("rank 1: %v", errs[1])
	}
	if gone := (*sdk.PeerError)(nil); !errors.As(errs[0], &gone) || gone.Peer != 1 {
		t.Errorf("rank 0: %v", errs[0])
	}
	k.must(k.each(func(ctx context.Context, rank int) error { return plugins[rank].Restart(ctx) }))
	k.group.Epoch++
	k.connect()
	if fresh := k.arenas[1].Device.Done; fresh.Len() == 0 || bytes.Equal(fresh.Handles[0], old.Handles[0]) {
		t.Error("the events are those of the process that died")
	}
	stale := *k.arenas[1].Device
	stale.Done = old
	if err := k.gpus[1].Attached(&stale); err == nil {
		t.Error("events of a dead process were opened")
	}
	k.must([]error{k.gpus[1].Attached(k.arenas[1].Device)})
	k.must(k.each(func(ctx context.Context, rank int) error {
		for seq := range uint64(3) {
			done, err := k.reduce(ctx, rank, seq+3, seq < 2)
			if err = errors.Join(err, k.gpus[rank].Follow(done)); err != nil {
				return err
			}
		}
		return k.check(ctx, rank)
	}))
}

// Handles that name nothing any more are refused before anything is mapped.
func TestHandlesOfFreedArenasAreRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []sdk.HandleKind{sdk.HandleIPC, sdk.HandlePosixFD} {
		m, h := served(t, 2)
		if kind == sdk.HandleIPC {
			m.Lack(driver.AttrVirtualMemory)
		}
		g := newComputing(t, m.CUDA(), 0, arenaSize)
		memory, err := g.Export(false)
		if err != nil || memory.Kind != kind {
			t.Fatal(memory, err)
		}
		b, err := h.StartBackend(t.Context(), executable(t))
		if err != nil {
			t.Fatal(err)
		}
		plugin := process{b}
		err = errors.Join(plugin.Open(t.Context(), sdk.Group{WorldSize: 1, Device: g.UUID()}, nil), g.Close())
		if err != nil {
			t.Fatal(err)
		}
		if err := plugin.Attach(t.Context(), &sdk.Arena{ID: 1, Name: "gradients", Device: memory}); err == nil {
			t.Errorf("%s: memory that is gone was attached", kind)
		}
		if err := plugin.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A rank that computes on one GPU and a backend that sees others is a mistake
// of the environment, and named as such.
func TestTheRanksGPUHasToBeVisible(t *testing.T) {
	t.Parallel()
	m := fakegpu.New(2)
	for device, want := range map[string]string{
		"GPU-00000000-0000-0000-0000-000000000002": "",
		"MIG-00000000-0000-0000-0000-000000000002": "", // the driver prints the UUID of a slice as that of a GPU
		"GPU-00000000-0000-0000-0000-000000000003": "CUDA_VISIBLE_DEVICES",
	} {
		b := onFake(m, 23000)
		err := b.Open(t.Context(), sdk.Group{WorldSize: 1, Device: device}, nil)
		if want == "" && (err != nil || b.device.id != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", device, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// NCCL takes two slices of a GPU for one device, whatever their UUIDs.
func TestSlicesOfAGPUAreOneDevice(t *testing.T) {
	t.Parallel()
	m := fakegpu.New(2)
	m.OneGPU()
	errs := ranks{onFake(m, 23000), onFake(m, 23000)}.connect(t, nil)
	wantText(t, errs, "ranks 0 and 1", "allow_shared_device = true")
}

// Ranks of one job have the same number of channels.
func TestChannelsHaveToAgree(t *testing.T) {
	t.Parallel()
	all := []endpoint{{NCCL: 1, Device: "a", Channels: 1}, {Endpoint: instance.Endpoint{Rank: 1}, NCCL: 1, Device: "b", Channels: 2}}
	if err := fit(all, false); err == nil || !strings.Contains(err.Error(), "rank 0 has 1 channels and rank 1 has 2") {
		t.Errorf("got %v", err)
	}
}
