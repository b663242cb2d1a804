package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Spec says what to run.
type Spec struct {
	Kind    sdk.Kind
	Plugin  string // as named in the TOML
	Options sdk.Options
	Steps   int // batches, updates of the loss scale, events, all-reduces, or passes of a layer
	Batch   int // samples of a batch, or of a layer's call
	Bytes   int // of an all-reduce
}

// Run starts a plugin, opens it as the only rank of a job, makes Steps calls as a run does,
// and closes it. It returns the calls in the order in which they began, also with an error:
// the last one then says what failed.
func Run(ctx context.Context, o host.Options, s Spec) ([]host.Call, error) {
	var mu sync.Mutex
	var calls []host.Call
	o.Trace = func(c host.Call) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, c)
	}
	h := host.New(o)
	var err error
	switch s.Kind {
	case sdk.KindBackend:
		err = backend(ctx, h, s)
	case sdk.KindDataset:
		err = dataset(ctx, h, s)
	case sdk.KindPrecision:
		err = precision(ctx, h, s)
	case sdk.KindObserver:
		err = observer(ctx, h, s)
	case sdk.KindLayer:
		err = layer(ctx, h, s)
	default:
		err = fmt.Errorf("calls of a %s plugin cannot be traced", s.Kind)
	}
	mu.Lock()
	defer mu.Unlock()
	slices.SortStableFunc(calls, func(a, b host.Call) int { return a.Began.Compare(b.Began) })
	return calls, err
}

func dataset(ctx context.Context, h *host.Host, s Spec) (err error) {
	d, err := h.StartDataset(ctx, s.Plugin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close(ctx)) }()
	spec, err := d.Open(ctx, sdk.DatasetRequest{Options: s.Options, WorldSize: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	const slots = 2
	if err := d.Prepare(slots, s.Batch); err != nil {
		return err
	}
	indices := make([]int64, min(s.Batch, spec.TrainSamples))
	for step := range s.Steps {
		for i := range indices {
			indices[i] = int64((step*len(indices) + i) % spec.TrainSamples)
		}
		if err := d.Request(step%slots, sdk.Train, 0, 1, indices); err != nil {
			return err
		}
		if _, _, err := d.Wait(step % slots); err != nil {
			return err
		}
	}
	return nil
}

func precision(ctx context.Context, h *host.Host, s Spec) (err error) {
	p, err := h.StartPrecision(ctx, s.Plugin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	if _, err := p.Policy(ctx, s.Options); err != nil {
		return err
	}
	for step := range s.Steps {
		if _, err := p.Update(ctx, step == s.Steps/2); err != nil { // one overflow
			return err
		}
	}
	state, err := p.State(ctx)
	if err != nil {
		return err
	}
	return p.Load(ctx, state)
}

func observer(ctx context.Context, h *host.Host, s Spec) (err error) {
	o, err := h.StartObserver(ctx, s.Plugin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close(ctx)) }()
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := o.Open(ctx, sdk.ObserverRequest{Options: s.Options, Name: "trace", Dir: dir, Config: map[string]any{"run.name": "trace"}}); err != nil {
		return err
	}
	for step := range s.Steps {
		line := event.Append(nil, event.Record{Seq: uint64(step + 1), Time: time.Now(), Event: &event.StepDone{Step: step + 1, Loss: 1, LossMean: 1, Samples: s.Batch}})
		if err := o.Observe(ctx, [][]byte{line}, 0, nil); err != nil {
			return err
		}
	}
	return nil
}

// layer makes forward and backward calls of a layer that reads six numbers.
func layer(ctx context.Context, h *host.Host, s Spec) (err error) {
	p, err := h.StartLayers(ctx, s.Plugin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	in := []int{6}
	l, err := p.Add(ctx, sdk.LayerRequest{Options: s.Options, Name: "trace", Shape: in}, "")
	if err != nil {
		return err
	}
	memory := func(elems int) []byte { return tensor.Aligned(4 * elems) }
	x, y := memory(s.Batch*tensor.Shape(in).Elems()), memory(s.Batch*tensor.Shape(l.Shape).Elems())
	var params, grads [][]byte
	for _, p := range l.Params {
		n := tensor.Shape(p.Shape).Elems()
		params, grads = append(params, memory(n)), append(grads, memory(n))
	}
	saved := x
	if l.SaveOutput {
		saved = y
	}
	for range s.Steps {
		err := l.Compute(false, tensor.F32, s.Batch, slices.Concat([][]byte{x}, params), [][]byte{y})
		if err == nil {
			err = l.Compute(true, tensor.F32, s.Batch, slices.Concat([][]byte{saved, y}, params), slices.Concat([][]byte{x}, grads))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func backend(ctx context.Context, h *host.Host, s Spec) (err error) {
	mem, err := shm.New("gradients", s.Bytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mem.Close()) }() // after the backend, which may still use it when a call has failed
	b, err := h.StartBackend(ctx, s.Plugin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close(ctx)) }()
	group := sdk.Group{JobID: "trace", Secret: make([]byte, 32), WorldSize: 1, LocalSize: 1, MasterAddr: "127.0.0.1", Timeout: time.Minute}
	if err := b.Open(ctx, group, s.Options); err != nil {
		return err
	}
	arena := &sdk.Arena{ID: 1, Name: "gradients", Arena: mem}
	if err := b.Attach(ctx, arena); err != nil {
		return err
	}
	endpoint, err := b.Listen(ctx)
	if err != nil {
		return err
	}
	if err := b.Connect(ctx, [][]byte{endpoint}); err != nil {
		return err
	}
	for step := range s.Steps {
		c := sdk.Collective{Seq: uint64(step + 1), Op: sdk.OpAllReduce, DType: tensor.F32, Count: s.Bytes / 4, Bucket: step, Arena: arena}
		ticket, err := b.Submit(&c)
		if err == nil {
			err = b.Wait(ticket)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
