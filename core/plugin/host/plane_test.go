package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// planes are all ways to reach an instance.
var planes = []struct {
	name    string
	env     map[string]string
	inside  bool
	process bool
}{
	{name: "shm", process: true},
	{name: "poll", process: true, env: map[string]string{"TRAINCTL_DOORBELL": "poll"}},
	{name: "inline", process: true, env: map[string]string{"TRAINCTL_DATA_PLANE": "inline"}},
	{name: "in process", inside: true},
}

func onEveryPlane(t *testing.T, test func(t *testing.T, h *host.Host, inside bool)) {
	for _, p := range planes {
		t.Run(p.name, func(t *testing.T) {
			for k, v := range p.env {
				t.Setenv(k, v)
			}
			test(t, newHost(t, host.Options{}), p.inside)
		})
	}
}

func TestBackendRoundTrip(t *testing.T) {
	onEveryPlane(t, func(t *testing.T, h *host.Host, inside bool) {
		b := newBackend(t, h, inside)
		equal(t, "version", b.Info().Version, "1.2.3")
		equal(t, "in process", b.PID() == 0, inside)
		arena := openBackend(t, b, "ok", time.Minute)
		floats := tensor.View[float32](arena.Bytes())
		floats[16], floats[17] = 5, 7
		// More than fit into the ring, without waiting in between.
		var last uint64
		for i := range 3 * shm.Slots {
			ticket, err := b.Submit(allReduce(arena, uint64(i+1), 64, 2))
			must(t, err)
			last = ticket
		}
		must(t, b.Wait(last))
		must(t, b.Wait(1))
		equal(t, "first", floats[16], 5+3*shm.Slots)
		equal(t, "second", floats[17], 7+3*shm.Slots)
		equal(t, "neighbour", floats[18], 0)
		ticket, err := b.Submit(&sdk.Collective{Op: sdk.OpBarrier, Bucket: -1})
		must(t, err)
		must(t, b.Wait(ticket))
		if _, err := b.Submit(allReduce(arena, 1, 1<<16-4, 2)); err == nil {
			t.Error("memory outside of the arena was accepted")
		}
		must(t, b.Close(t.Context()))
		if _, err := b.Submit(allReduce(arena, 1, 0, 1)); !errors.Is(err, host.ErrClosed) {
			t.Errorf("Submit after Close: %v", err)
		}
	})
}

// A plugin gets no calls that it does not publish: it might complete a call that it
// does not know, with the buffer as it was.
func TestUnpublishedCallsAreRefused(t *testing.T) {
	onEveryPlane(t, func(t *testing.T, h *host.Host, inside bool) {
		b := newBackend(t, h, inside)
		arena := openBackend(t, b, "ok", time.Minute)
		for want, change := range map[string]func(*sdk.Collective){
			"all_reduce f16[2]": func(c *sdk.Collective) { c.DType = tensor.F16 },
			"broadcast f32[2]":  func(c *sdk.Collective) { c.Op = sdk.OpBroadcast },
			"op(99)":            func(c *sdk.Collective) { c.Op = 99 },
		} {
			c := allReduce(arena, 1, 64, 2)
			change(c)
			if _, err := b.Submit(c); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		ticket, err := b.Submit(allReduce(arena, 1, 64, 2)) // and it goes on with what it knows
		must(t, err)
		must(t, b.Wait(ticket))
		must(t, b.Close(t.Context()))
	})
}

// A policy that casts what no model has is refused, wherever the plugin runs.
func TestUnknownCastsAreRefused(t *testing.T) {
	p := host.InProcessPrecision(misspelt{})
	defer p.Close(t.Context())
	_, err := p.Policy(t.Context(), nil)
	var unusable *host.StartError
	if !errors.As(err, &unusable) || !strings.Contains(err.Error(), `casts "lineer", which is not an operation`) || !strings.Contains(unusable.Help, "linear") {
		t.Errorf("%v", err)
	}
}

type misspelt struct{ sdk.Precision }

func (misspelt) Info() sdk.Info { return sdk.Info{Name: "misspelt"} }
func (misspelt) Close() error   { return nil }
func (misspelt) Policy(context.Context, sdk.Options) (sdk.Policy, error) {
	return sdk.Policy{Params: tensor.F32, Lower: tensor.F16, Scale: 1, Casts: map[string]sdk.Cast{"linear": sdk.CastLower, "lineer": sdk.CastLower}}, nil
}

func TestDatasetRoundTrip(t *testing.T) {
	onEveryPlane(t, func(t *testing.T, h *host.Host, inside bool) {
		d := newDataset(t, h, inside)
		options, problems := sdk.CheckOptions("dataset.options", d.Info().Options, map[string]any{"broken": true})
		must(t, problems.Err())
		spec, err := d.Open(t.Context(), sdk.DatasetRequest{Options: options, WorldSize: 2, Seed: 3})
		must(t, err)
		equal(t, "spec", spec.Input.String()+spec.Target.String()+spec.Source+spec.Fingerprint+spec.Notice, "f32[2]i32[]syntheticabcnot real")
		must(t, d.Prepare(3, 4))
		for slot := range 3 {
			must(t, d.Request(slot, sdk.Train, 7, 3, []int64{int64(slot), 99, 5}))
		}
		for slot := range 3 {
			input, target, err := d.Wait(slot)
			must(t, err)
			s := float32(slot)
			if got, want := tensor.View[float32](input), []float32{s, 7, 99, 7, 5, 7}; !slices.Equal(got, want) {
				t.Errorf("slot %d: input %v, want %v", slot, got, want)
			}
			if got, want := tensor.View[int32](target), []int32{int32(slot), 99, 5}; !slices.Equal(got, want) {
				t.Errorf("slot %d: target %v, want %v", slot, got, want)
			}
		}
		must(t, d.Request(0, sdk.Train, 0, 0, []int64{13}))
		var reported *sdk.Error
		var useless *host.DataError
		if _, _, err := d.Wait(0); !errors.As(err, &useless) || !errors.As(err, &reported) || reported.Text != "sample 13 is corrupt" {
			t.Errorf("a corrupt sample gives %v", err)
		}
		must(t, d.Request(0, sdk.Train, 0, 0, []int64{14}))
		if _, _, err := d.Wait(0); err == nil || errors.As(err, &useless) {
			t.Errorf("a failure of the moment gives %v", err)
		}
		if !inside {
			must(t, d.Request(0, sdk.Test, 0, 0, []int64{10}))
			if _, _, err := d.Wait(0); !errors.As(err, &reported) || reported.Code != sdk.CodeProtocol {
				t.Errorf("an index outside of the split gives %v", err)
			}
		}
		must(t, d.Request(0, sdk.Test, 0, 0, nil))
		_, _, err = d.Wait(0)
		must(t, err)
		must(t, d.Close(t.Context()))
	})
}

func TestPrecisionRoundTrip(t *testing.T) {
	onEveryPlane(t, func(t *testing.T, h *host.Host, inside bool) {
		p := newPrecision(t, h, inside)
		ctx := t.Context()
		policy, err := p.Policy(ctx, nil)
		must(t, err)
		equal(t, "scale", policy.Scale, 1024)
		equal(t, "cast", policy.Casts["conv2d"], sdk.CastLower)
		equal(t, "property", policy.Properties[0], [2]string{"level", "O1"})
		s, err := p.Update(ctx, true)
		must(t, err)
		equal(t, "update", s, sdk.ScaleState{Scale: 512, Skip: true, Skipped: 1})
		must(t, p.Load(ctx, map[string]float64{"scale": 8}))
		s, err = p.Update(ctx, false)
		must(t, err)
		equal(t, "update", s, sdk.ScaleState{Scale: 8})
		state, err := p.State(ctx)
		must(t, err)
		equal(t, "state", state["scale"], 8)
		must(t, p.Close(ctx))
	})
}

func TestErrorsKeepTheirType(t *testing.T) {
	onEveryPlane(t, func(t *testing.T, h *host.Host, inside bool) {
		do := func(mode string, timeout time.Duration) error {
			b := newBackend(t, h, inside)
			defer b.Close(context.Background())
			arena := openBackend(t, b, mode, timeout)
			ticket, err := b.Submit(allReduce(arena, 4, 0, 1))
			must(t, err)
			err = b.Wait(ticket)
			var plugin *host.PluginError
			if !errors.As(err, &plugin) || plugin.Name != "fake" || plugin.Phase != "all_reduce #4" {
				t.Errorf("%s: %v does not name plugin and call", mode, err)
			}
			// The group stays unusable.
			ticket, err2 := b.Submit(allReduce(arena, 5, 0, 1))
			must(t, err2)
			if b.Wait(ticket) == nil {
				t.Errorf("%s: a call after a failure succeeds", mode)
			}
			return err
		}
		var stall *sdk.StallError
		if err := do("stall", 50*time.Millisecond); !errors.As(err, &stall) || !slices.Equal(stall.Missing, []int{1, 2}) || stall.Waited != 5*time.Millisecond || stall.Bucket != -1 {
			t.Errorf("stall: %v", err)
		}
		var mismatch *sdk.MismatchError
		if err := do("mismatch", time.Minute); !errors.As(err, &mismatch) || mismatch.Mine != "#4 all_reduce f32[1] sum" {
			t.Errorf("mismatch: %v", err)
		}
		var generic *sdk.Error
		if err := do("code", time.Minute); !errors.As(err, &generic) || *generic != (sdk.Error{Code: "fake.code", Text: "with a code"}) {
			t.Errorf("code: %v", err)
		}
		if !inside {
			if err := do("panic", time.Minute); !errors.As(err, &generic) || generic.Code != sdk.CodePanic {
				t.Errorf("panic: %v", err)
			}
		}
	})
}

// records keeps what a host logs.
type records struct {
	slog.Handler
	mu  sync.Mutex
	got []string
}

func (r *records) Handle(_ context.Context, rec slog.Record) error {
	s := rec.Level.String() + " " + rec.Message
	rec.Attrs(func(a slog.Attr) bool { s += " " + a.String(); return true })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, s)
	return nil
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs(a []slog.Attr) slog.Handler     { return &with{r, a} }

type with struct {
	*records
	attrs []slog.Attr
}

func (w *with) Handle(ctx context.Context, rec slog.Record) error {
	rec.AddAttrs(w.attrs...)
	return w.records.Handle(ctx, rec)
}

func TestPluginsRecordsReachTheHostsLog(t *testing.T) {
	log := &records{}
	h := newHost(t, host.Options{Log: slog.New(log)})
	d, err := h.StartDataset(t.Context(), "fake")
	must(t, err)
	_, err = d.Open(t.Context(), sdk.DatasetRequest{})
	must(t, err)
	must(t, d.Close(t.Context()))
	b, err := h.StartBackend(t.Context(), "fake")
	must(t, err)
	openBackend(t, b, "ok", time.Minute)
	must(t, b.Close(t.Context()))
	log.mu.Lock()
	defer log.mu.Unlock()
	for _, want := range []string{"INFO reading done=5 total=10 plugin=fake", "INFO a line on standard output plugin=fake"} {
		if !slices.Contains(log.got, want) {
			t.Errorf("the log lacks %q; it has %q", want, log.got)
		}
	}
}

func TestLargeMessage(t *testing.T) {
	p, err := newHost(t, host.Options{}).StartPrecision(t.Context(), "fake")
	must(t, err)
	defer p.Close(context.Background())
	state := map[string]float64{"scale": 2}
	for i := range 5 {
		state[strings.Repeat(string(rune('a'+i)), 1<<20)] = 1
	}
	must(t, p.Load(t.Context(), state))
	_, err = p.Policy(t.Context(), nil)
	must(t, err)
}

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
