package host_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// The test binary serves its own plugins, as trainctl does.
func TestMain(m *testing.M) {
	host.ServeBuiltin(builtins, os.Args[1:])
	if os.Getenv("TEST_HOST") != "" {
		beHost()
	}
	goleak.VerifyTestMain(m)
}

var builtins = []host.Builtin{
	{Kind: sdk.KindBackend, Name: "fake", Plugin: sdk.Plugin{Backend: func() sdk.Backend { return &fakeBackend{} }}},
	{Kind: sdk.KindDataset, Name: "fake", Plugin: sdk.Plugin{Dataset: func() sdk.Dataset { return &fakeDataset{} }}},
	{Kind: sdk.KindPrecision, Name: "fake", Plugin: sdk.Plugin{Precision: func() sdk.Precision { return &fakePrecision{} }}},
}

func newHost(t testing.TB, o host.Options) *host.Host {
	o.Builtins = builtins
	if o.HangTimeout == 0 {
		o.HangTimeout = 30 * time.Second // the machine may be busy
	}
	// The race detector makes every process sleep a second before it exits.
	o.SetEnv = append(o.SetEnv, "GORACE=atexit_sleep_ms=0")
	return host.New(o)
}

// fakeBackend adds one to every float of an all-reduce; mode says what else
// happens in Do.
type fakeBackend struct {
	mode   string
	group  sdk.Group
	arenas map[uint32]*sdk.Arena
}

func (b *fakeBackend) Info() sdk.Info {
	return sdk.Info{
		Name: "fake", Version: "1.2.3", Summary: "adds one",
		Options: []sdk.Option{
			{Name: "mode", Type: sdk.String, Default: "ok", Doc: "What goes wrong in Do."},
			{Name: "rates", Type: sdk.FloatList, Default: []float64{0.5, 2}, Doc: "Unused."},
			{Name: "chunk", Type: sdk.Int, Default: int64(1 << 60), Unit: "bytes", Doc: "Unused."},
		},
		DTypes: []tensor.DType{tensor.F32}, Ops: []sdk.Op{sdk.OpAllReduce, sdk.OpBarrier}, Devices: []string{"cpu"},
		Determinism: "bitwise",
	}
}

func (b *fakeBackend) Open(_ context.Context, g sdk.Group, o sdk.Options) error {
	b.mode, b.group, b.arenas = o.String("mode"), g, map[uint32]*sdk.Arena{}
	if o.Int("chunk") != 1<<60 || len(o.Floats("rates")) != 2 {
		return fmt.Errorf("options arrived as %v", o)
	}
	if b.mode == "open" {
		return errors.New("cannot open")
	}
	slog.Info("opened", "done", 1, "total", 2)
	fmt.Println("a line on standard output")
	return nil
}

func (b *fakeBackend) Attach(_ context.Context, a *sdk.Arena) error {
	b.arenas[a.ID] = a
	return nil
}

func (b *fakeBackend) Listen(context.Context) ([]byte, error) { return []byte("endpoint"), nil }

func (b *fakeBackend) Connect(_ context.Context, endpoints [][]byte) error {
	if len(endpoints) != b.group.WorldSize {
		return &sdk.PeerError{Peer: 1, Cause: "missing"}
	}
	return nil
}

func (b *fakeBackend) Do(ctx context.Context, c *sdk.Collective) error {
	switch b.mode {
	case "exit":
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(3)
	case "panic":
		panic("the backend is broken")
	case "stall":
		<-ctx.Done()
		return &sdk.StallError{Seq: c.Seq, Op: c.Op, Bucket: c.Bucket, Missing: []int{1, 2}, Waited: 5 * time.Millisecond}
	case "mismatch":
		return fmt.Errorf("wrapped: %w", &sdk.MismatchError{Rank: 0, Peer: 1, Mine: c.String(), Its: "#1 barrier"})
	case "code":
		return &sdk.Error{Code: "fake.code", Text: "with a code"}
	case "deaf":
		select {}
	}
	if c.Arena != nil && b.arenas[c.Arena.ID] == nil {
		return errors.New("an arena that was not attached")
	}
	if c.Op == sdk.OpAllReduce {
		for i := 0; i < len(c.Buf); i += 4 {
			v := math.Float32frombits(binary.LittleEndian.Uint32(c.Buf[i:]))
			binary.LittleEndian.PutUint32(c.Buf[i:], math.Float32bits(v+1))
		}
	}
	return nil
}

func (b *fakeBackend) Close() error {
	if b.mode == "close" {
		return errors.New("cannot close")
	}
	return nil
}

// floodLines are what a data set in the mode flood prints for a batch.
const floodLines = 50_000

// fakeDataset has samples of two floats (index, epoch) and one target (index).
type fakeDataset struct {
	broken bool
	mode   string
}

func (d *fakeDataset) Info() sdk.Info {
	return sdk.Info{Name: "fake", Version: "1", Summary: "counts", Options: []sdk.Option{
		{Name: "broken", Type: sdk.Boolean, Default: false, Doc: "Fail at sample 13."},
		{Name: "mode", Type: sdk.String, Default: "ok", Doc: "What goes wrong in Fill."},
	}}
}

func (d *fakeDataset) Open(_ context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	d.broken, d.mode = req.Options.Bool("broken"), req.Options.String("mode")
	req.Log.Info("reading", "done", 5, "total", 10)
	return sdk.DatasetSpec{
		Source: "synthetic", Input: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2}},
		Target: tensor.Spec{DType: tensor.I32}, Classes: 10, ClassNames: []string{"a", "b"},
		TrainSamples: 100, TestSamples: 10, Fingerprint: "abc", Notice: "not real",
	}, nil
}

func (d *fakeDataset) Fill(_ context.Context, b *sdk.Batch) error {
	in, out := tensor.View[float32](b.Input), tensor.View[int32](b.Target)
	switch d.mode {
	case "deaf":
		select {}
	case "flood":
		for i := range floodLines {
			fmt.Println("line", i)
		}
	}
	for i, index := range b.Indices {
		if d.broken && index == 13 {
			return sdk.Corrupt(errors.New("sample 13 is corrupt"))
		}
		if d.broken && index == 14 {
			return errors.New("the network is away")
		}
		in[2*i], in[2*i+1], out[i] = float32(index), float32(b.Epoch), int32(index)
		if b.NoAugment {
			in[2*i+1] = -1
		}
	}
	return nil
}

// TrainClasses are three of ten samples of class 0, and the others of class 1.
func (d *fakeDataset) TrainClasses() []int32 {
	if d.mode == "classless" {
		return nil
	}
	classes := make([]int32, 100)
	for i := range classes {
		if i%10 >= 3 {
			classes[i] = 1
		}
	}
	return classes
}

func (d *fakeDataset) Close() error { return nil }

// fakePrecision halves the scale when it should.
type fakePrecision struct {
	scale   float64
	skipped uint64
}

func (p *fakePrecision) Info() sdk.Info {
	return sdk.Info{Name: "fake", Version: "1", Summary: "halves"}
}

func (p *fakePrecision) Policy(context.Context, sdk.Options) (sdk.Policy, error) {
	p.scale = 1024
	return sdk.Policy{
		Name: "fake", Params: tensor.F32, Lower: tensor.BF16, Scale: p.scale, Dynamic: true,
		Casts: map[string]sdk.Cast{"conv2d": sdk.CastLower}, Properties: [][2]string{{"level", "O1"}},
	}, nil
}

func (p *fakePrecision) Update(_ context.Context, foundInf bool) (sdk.ScaleState, error) {
	p.skipped++
	if foundInf {
		p.scale /= 2
	} else {
		p.skipped = 0
	}
	return sdk.ScaleState{Scale: p.scale, Skip: foundInf, Skipped: p.skipped}, nil
}

func (p *fakePrecision) State(context.Context) (map[string]float64, error) {
	return map[string]float64{"scale": p.scale, "skipped": float64(p.skipped)}, nil
}

func (p *fakePrecision) Load(_ context.Context, s map[string]float64) error {
	p.scale, p.skipped = s["scale"], uint64(s["skipped"])
	return nil
}

func (p *fakePrecision) Close() error { return nil }

// A backend that is open and has one arena of 64 KiB.
func openBackend(t testing.TB, b host.Collectives, mode string, timeout time.Duration) *sdk.Arena {
	t.Helper()
	mem, err := shm.New("test", 1<<16)
	must(t, err)
	t.Cleanup(func() { must(t, mem.Close()) })
	arena := &sdk.Arena{ID: 1, Name: "test", Arena: mem}
	openWith(t, b, mode, timeout, arena)
	return arena
}

func openWith(t testing.TB, b host.Collectives, mode string, timeout time.Duration, arena *sdk.Arena) {
	t.Helper()
	ctx := t.Context()
	options, problems := sdk.CheckOptions("backend.options", b.Info().Options, map[string]any{"mode": mode})
	must(t, problems.Err())
	must(t, b.Open(ctx, sdk.Group{JobID: "job", WorldSize: 1, LocalSize: 1, Timeout: timeout}, options))
	must(t, b.Attach(ctx, arena))
	endpoint, err := b.Listen(ctx)
	must(t, err)
	must(t, b.Connect(ctx, [][]byte{endpoint}))
}

func startBackend(t testing.TB, h *host.Host, mode string, timeout time.Duration) (*host.Backend, *sdk.Arena) {
	t.Helper()
	b, err := h.StartBackend(t.Context(), "fake")
	must(t, err)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b, openBackend(t, b, mode, timeout)
}

func allReduce(a *sdk.Arena, seq uint64, offset, count int) *sdk.Collective {
	return &sdk.Collective{Seq: seq, Op: sdk.OpAllReduce, DType: tensor.F32, Count: count, Bucket: -1, Arena: a, Offset: offset}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// start returns an instance in this process, or starts the plugin "fake".
func start[P, I any](t testing.TB, inside bool, local func(I) *P, instance I, process func(context.Context, string) (*P, error)) *P {
	t.Helper()
	if inside {
		return local(instance)
	}
	p, err := process(t.Context(), "fake")
	must(t, err)
	return p
}

func newBackend(t testing.TB, h *host.Host, inside bool) *host.Backend {
	t.Helper()
	return start(t, inside, host.InProcessBackend, sdk.Backend(&fakeBackend{}), h.StartBackend)
}

func newDataset(t testing.TB, h *host.Host, inside bool) *host.Dataset {
	t.Helper()
	return start(t, inside, host.InProcessDataset, sdk.Dataset(&fakeDataset{}), h.StartDataset)
}

func newPrecision(t testing.TB, h *host.Host, inside bool) *host.Precision {
	t.Helper()
	return start(t, inside, host.InProcessPrecision, sdk.Precision(&fakePrecision{}), h.StartPrecision)
}

// A timed collective's span lies between its submission and the end of the
// wait; one that is not timed has none.
func TestSpan(t *testing.T) {
	onEveryPlane(t, func(t *testing.T, h *host.Host, inside bool) {
		b := newBackend(t, h, inside)
		arena := openBackend(t, b, "ok", time.Minute)
		for seq, timed := range []bool{false, true, true} {
			if timed {
				b.Timed()
			}
			before := time.Now().Round(0)
			ticket, err := b.Submit(allReduce(arena, uint64(seq+1), 64, 2))
			must(t, err)
			must(t, b.Wait(ticket))
			begin, end, ok := b.Span(ticket)
			if ok != timed {
				t.Fatalf("call %d: a span is there: %v", seq, ok)
			}
			if ok && (begin.Before(before) || end.Before(begin) || end.After(time.Now())) {
				t.Errorf("call %d: from %v to %v, submitted at %v", seq, begin, end, before)
			}
		}
		if _, _, ok := b.Span(99); ok {
			t.Error("a collective that was never made has a span")
		}
		must(t, b.Close(t.Context()))
	})
}
