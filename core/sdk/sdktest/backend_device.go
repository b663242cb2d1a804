package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/contract/contracttest"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// DeviceRank is a rank's GPU, with one arena on it and a stream on which it
// computes. Methods are called from one goroutine at a time.
type DeviceRank interface {
	// UUID is the GPU's, for Group.Device.
	UUID() string
	// Export describes the arena for a backend in this process or another.
	Export(inProcess bool) (*sdk.DeviceMemory, error)
	// Attached receives the backend's events.
	Attached(m *sdk.DeviceMemory) error
	// Write enqueues work on the stream that fills part of the arena. It may run
	// long after Write has returned.
	Write(offset int, b []byte) error
	// Written records an event after it, for Collective.Ready; 0 if it has waited
	// instead.
	Written(ctx context.Context) (int, error)
	// Follow lets the stream wait for a Done event.
	Follow(done int) error
	// Read waits for the stream and returns part of the arena.
	Read(ctx context.Context, offset int, b []byte) error
	Close() error
}

// DeviceOptions configures [Device].
type DeviceOptions struct {
	BackendOptions

	// Rank returns the GPU of a rank, with an arena of at least size bytes.
	Rank func(t testing.TB, rank, size int) DeviceRank

	// InProcess passes addresses instead of handles.
	InProcess bool

	// Events is whether events are expected to be shared: without them, every
	// buffer is complete when a call is made.
	Events bool
}

// Device runs the conformance suite for arenas on GPUs: the results of collectives in
// them, their order relative to the work on the streams, and what is refused.
func Device(t *testing.T, o DeviceOptions) {
	s := &deviceSuite{backendSuite{BackendOptions: o.BackendOptions}, o}
	if s.Worlds == nil {
		s.Worlds = []int{1, 2, 3}
	}
	if s.CallTimeout <= 0 {
		s.CallTimeout = defaultCallTimeout
	}
	instance := o.New(t)
	s.info = instance.Info()
	if err := instance.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if !s.info.DeviceArena {
		t.Fatal("Info.DeviceArena is false, so the core does not pass GPU memory to this backend")
	}
	for _, w := range s.worlds(1) {
		t.Run(worldName(w), func(t *testing.T) {
			t.Run("results", func(t *testing.T) { s.results(t, w) })
			t.Run("mixed", func(t *testing.T) { s.mixed(t, w) })
			t.Run("early", func(t *testing.T) { s.early(t, w) })
		})
	}
	t.Run("refused calls", s.refusedCalls)
	t.Run("refused arenas", s.refusedArenas)
}

type deviceSuite struct {
	backendSuite
	device DeviceOptions
}

// deviceGroup is a group whose ranks have an arena on a GPU beside that of the host.
type deviceGroup struct {
	*group
	suite  *deviceSuite
	ranks  []DeviceRank
	arenas []*sdk.Arena
}

const deviceArena = 9

// start starts a group with two channels.
func (s *deviceSuite) start(t *testing.T, world int) *deviceGroup {
	t.Helper()
	d := &deviceGroup{suite: s}
	t.Cleanup(func() {
		for _, r := range d.ranks {
			if err := r.Close(); err != nil {
				t.Errorf("Close of a rank's GPU: %v", err)
			}
		}
	})
	for rank := range world {
		d.ranks = append(d.ranks, s.device.Rank(t, rank, s.arenaSize(world)))
		m, err := d.ranks[rank].Export(s.device.InProcess)
		if err != nil {
			t.Fatal(err)
		}
		d.arenas = append(d.arenas, &sdk.Arena{ID: deviceArena, Name: "gradients", Device: m})
	}
	d.group = s.startWith(t, world, true, s.CallTimeout, func(rank int, g *sdk.Group) { g.Device, g.Channels = d.ranks[rank].UUID(), 2 }, d.attach)
	return d
}

func (d *deviceGroup) attach(ctx context.Context, rank int, b sdk.Backend) error {
	m := d.arenas[rank].Device
	if err := b.Attach(ctx, d.arenas[rank]); err != nil {
		return err
	}
	if want := d.suite.device.Events; (m.Done.Len() > 0) != want || want && m.Done.Len() != m.Ready.Len() {
		return fmt.Errorf("the backend has %d events for the rank's %d", m.Done.Len(), m.Ready.Len())
	}
	return d.ranks[rank].Attached(m)
}

// submit writes a rank's input, without waiting for it, and makes the call.
func (d *deviceGroup) submit(ctx context.Context, rank, offset int, c sdk.Collective, early bool, input []byte) (done int, err error) {
	r := d.ranks[rank]
	if err := r.Write(offset, input); err != nil {
		return 0, err
	}
	if c.Ready, err = r.Written(ctx); err != nil {
		return 0, err
	}
	if early {
		c.Done = c.Ready
	}
	c.Arena, c.Offset = d.arenas[rank], offset
	return c.Done, d.call(ctx, rank, &c)
}

// do runs c on all ranks and returns what their arenas hold after it.
func (d *deviceGroup) do(c sdk.Collective, inputs [][]byte) [][]byte {
	d.t.Helper()
	d.seq++
	c.Seq = d.seq
	outputs := make([][]byte, d.world)
	d.all(c.String(), func(ctx context.Context, rank int) error {
		offset := 8 * int(c.Seq%37)
		if _, err := d.submit(ctx, rank, offset, c, false, inputs[rank]); err != nil {
			return err
		}
		outputs[rank] = make([]byte, len(inputs[rank]))
		return d.ranks[rank].Read(ctx, offset, outputs[rank])
	})
	return outputs
}

func (s *deviceSuite) slack(world int) float64 { return 2 * float64(world) }

// expect checks all ranks' buffers against want.
func (d *deviceGroup) expect(t *testing.T, c sdk.Collective, out [][]byte, want func(rank int) []byte) {
	t.Helper()
	for rank := range out {
		if diff := differ(c.DType, out[rank], want(rank), d.suite.slack(d.world)); diff != "" {
			t.Fatalf("%v on rank %d of %d: %s", &c, rank, d.world, diff)
		}
	}
}

// results checks what collectives compute in device memory.
func (s *deviceSuite) results(t *testing.T, world int) {
	d := s.start(t, world)
	r := results{&s.backendSuite, d.group}
	for _, k := range r.combinations() {
		in := eachRank(world, func(rank int) []byte { return values(k.dtype, k.count, rank, 1) })
		want := make([]byte, len(in[0]))
		contracttest.Reduce(k.reduce, k.dtype, want, in)
		c := sdk.Collective{Op: sdk.OpAllReduce, Reduce: k.reduce, DType: k.dtype, Count: k.count, Bucket: 3}
		d.expect(t, c, d.do(c, in), func(int) []byte { return want })
	}
	for root := range world {
		in := eachRank(world, func(rank int) []byte { return values(tensor.U8, 1001, rank, root) })
		c := sdk.Collective{Op: sdk.OpBroadcast, DType: tensor.U8, Count: 1001, Root: root, Bucket: -1}
		d.expect(t, c, d.do(c, in), func(int) []byte { return in[root] })
	}
	const n = 1000
	whole := eachRank(world, func(rank int) []byte { return values(tensor.F32, n*world, rank, 5) })
	gather := sdk.Collective{Op: sdk.OpAllGather, DType: tensor.F32, Count: n, Bucket: -1}
	var gathered []byte
	for rank := range world {
		gathered = append(gathered, whole[rank][4*n*rank:][:4*n]...)
	}
	d.expect(t, gather, d.do(gather, whole), func(int) []byte { return gathered })
	scatter := sdk.Collective{Op: sdk.OpReduceScatter, DType: tensor.F32, Count: n, Bucket: -1}
	sum := make([]byte, 4*n*world)
	contracttest.Reduce(sdk.Sum, tensor.F32, sum, whole)
	for rank, out := range d.do(scatter, whole) {
		if diff := differ(tensor.F32, out[4*n*rank:][:4*n], sum[4*n*rank:][:4*n], s.slack(world)); diff != "" {
			t.Fatalf("%v on rank %d of %d: %s", &scatter, rank, world, diff)
		}
	}
}

// mixed alternates between both kinds of arenas and both channels, and has
// ranks that use different kinds in one collective.
func (s *deviceSuite) mixed(t *testing.T, world int) {
	d := s.start(t, world)
	const n = 333
	in := eachRank(world, func(rank int) []byte { return values(tensor.F32, n, rank, 7) })
	want := make([]byte, 4*n)
	contracttest.Reduce(sdk.Sum, tensor.F32, want, in)
	for round := range 6 {
		d.seq++
		c := sdk.Collective{Seq: d.seq, Op: sdk.OpAllReduce, DType: tensor.F32, Count: n, Bucket: -1, Channel: round % 2}
		out := make([][]byte, world)
		d.all(c.String(), func(ctx context.Context, rank int) error {
			if (round+rank)%3 > 0 {
				if _, err := d.submit(ctx, rank, 64, c, false, in[rank]); err != nil {
					return err
				}
				out[rank] = make([]byte, 4*n)
				return d.ranks[rank].Read(ctx, 64, out[rank])
			}
			call := d.place(c, rank, c.Seq, in[rank])
			err := d.call(ctx, rank, call)
			out[rank] = bytes.Clone(call.Buf)
			return err
		})
		d.expect(t, c, out, func(int) []byte { return want })
	}
}

// early sums the same memory many times and waits only for the last sum: only events
// order the sums.
func (s *deviceSuite) early(t *testing.T, world int) {
	if !s.device.Events {
		t.Skip("events cannot be shared between processes on this machine")
	}
	const n, rounds, offset = 501, 130, 16 // more rounds than there are events
	d := s.start(t, world)
	first := d.seq
	out := make([][]byte, world)
	d.all("rounds", func(ctx context.Context, rank int) error {
		for i := range rounds {
			input := values(tensor.I32, n, rank, i)
			c := sdk.Collective{Seq: first + uint64(i) + 1, Op: sdk.OpAllReduce, DType: tensor.I32, Count: n, Bucket: i, Channel: i % 2}
			done, err := d.submit(ctx, rank, offset, c, true, input)
			if err != nil {
				return err
			}
			if err := d.ranks[rank].Follow(done); err != nil {
				return err
			}
		}
		out[rank] = make([]byte, 4*n)
		if err := d.ranks[rank].Read(ctx, offset, out[rank]); err != nil {
			return err
		}
		return d.call(ctx, rank, &sdk.Collective{Seq: first + rounds + 1, Op: sdk.OpBarrier, Bucket: -1})
	})
	want := make([]byte, 4*n)
	contracttest.Reduce(sdk.Sum, tensor.I32, want, eachRank(world, func(rank int) []byte { return values(tensor.I32, n, rank, rounds-1) }))
	d.expect(t, sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.I32, Count: n}, out, func(int) []byte { return want })
}

// refusedCalls makes invalid calls on one rank; none may be done.
func (s *deviceSuite) refusedCalls(t *testing.T) {
	good := sdk.Collective{Seq: 1, Op: sdk.OpAllReduce, DType: tensor.F32, Count: 4, Bucket: -1}
	for name, spoil := range map[string]func(c *sdk.Collective, m *sdk.DeviceMemory){
		"beyond the arena":   func(c *sdk.Collective, m *sdk.DeviceMemory) { c.Offset = m.Size - 8 },
		"a negative offset":  func(c *sdk.Collective, _ *sdk.DeviceMemory) { c.Offset = -16 },
		"an unknown event":   func(c *sdk.Collective, m *sdk.DeviceMemory) { c.Ready = m.Done.Len() + 1 },
		"an unknown answer":  func(c *sdk.Collective, m *sdk.DeviceMemory) { c.Done = m.Done.Len() + 1 },
		"an unknown channel": func(c *sdk.Collective, _ *sdk.DeviceMemory) { c.Channel = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			d := s.start(t, 1)
			c := good
			c.Arena = d.arenas[0]
			spoil(&c, c.Arena.Device)
			if err := d.errors(name, func(ctx context.Context, rank int) error { return d.call(ctx, rank, &c) })[0]; err == nil {
				t.Error("it was done")
			}
		})
	}
}

// refusedArenas attaches invalid arenas, which must not change the backend.
func (s *deviceSuite) refusedArenas(t *testing.T) {
	d := s.start(t, 1)
	for name, spoil := range map[string]func(m *sdk.DeviceMemory){
		"another GPU":    func(m *sdk.DeviceMemory) { m.UUID = "GPU-00000000-0000-0000-0000-0000000000ff" },
		"no handle":      func(m *sdk.DeviceMemory) { m.Kind, m.Handle, m.File = sdk.HandleIPC, nil, nil },
		"a wrong handle": func(m *sdk.DeviceMemory) { m.Kind, m.Handle = sdk.HandleIPC, make([]byte, sdk.HandleSize) },
		"another kind":   func(m *sdk.DeviceMemory) { m.Kind = "pipe" },
	} {
		bad := *d.arenas[0].Device
		spoil(&bad)
		a := &sdk.Arena{ID: deviceArena + 1, Name: "bad", Device: &bad}
		err := d.errors(name, func(ctx context.Context, _ int) error { return d.backends[0].Attach(ctx, a) })[0]
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	in := [][]byte{values(tensor.F32, 10, 0, 3)}
	c := sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.F32, Count: 10, Bucket: -1}
	d.expect(t, c, d.do(c, in), func(int) []byte { return in[0] })
}
