package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// Layers is a layer plugin in use: all layers of a rank that it computes. Its methods may be called from
// several goroutines; calls are made one after the other.
type Layers struct {
	// Timeout bounds each call; set before Add, default 30 s. The plugin knows it; one that has not
	// returned a few seconds later hangs.
	Timeout time.Duration

	replaceable[*remoteLayers]
	layers []*RemoteLayer // by number
	arena  *shm.Arena     // of the tensors of a call; nil before the first, and without shared memory
	id     uint32         // of the arena
	mem    []byte         // of the tensors
	op     operation
	names  atomic.Pointer[[]string] // of the layers by number, for messages
	broken error                    // why later calls fail
}

// RemoteLayer is a layer that a plugin's process computes. It implements [op.Remote].
type RemoteLayer struct {
	sdk.LayerSpec // as the plugin described it

	of      *Layers
	number  int
	request sdk.LayerRequest
	name    string // for messages: "layer act (model.layers[1])"
	in, out int    // elements of a sample
	params  []int  // elements of each
}

// StartLayers starts a layer plugin: a name or a path. The error is a *StartError.
func (h *Host) StartLayers(ctx context.Context, name string) (*Layers, error) {
	l := &Layers{Timeout: 30 * time.Second}
	l.names.Store(new([]string))
	err := l.launch(ctx, processes(h, sdk.KindLayer, name, func(p *plugin) (*remoteLayers, operate) {
		p.record.Layer = l.name
		r := &remoteLayers{p}
		return r, r.compute
	}))
	if err != nil {
		return nil, err
	}
	return l, nil
}

// name is that of the layer with a number. It may be called at any time.
func (l *Layers) name(number uint64) string {
	if names := *l.names.Load(); number < uint64(len(names)) {
		return names[number]
	}
	return fmt.Sprintf("layer #%d", number)
}

// Add asks the plugin what a layer is, and adds it to those that can be computed. Requests that are equal give
// the same layer. place is the key of the layer's table, for messages, or "".
func (l *Layers) Add(ctx context.Context, req sdk.LayerRequest, place string) (*RemoteLayer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.layers {
		if reflect.DeepEqual(r.request, req) {
			return r, nil
		}
	}
	r := &RemoteLayer{of: l, number: len(l.layers), request: req, name: "layer " + req.Name}
	if place != "" {
		r.name += " (" + place + ")"
	}
	err := l.repeatWith(sdk.KindLayer, l.restore, func(now *running[*remoteLayers]) (err error) {
		r.LayerSpec, err = now.ctl.describe(ctx, r, l.limit(now))
		return err
	})
	if err != nil {
		return nil, err
	}
	r.in, r.out = elems(req.Shape), elems(r.Shape)
	for _, p := range r.Params {
		r.params = append(r.params, elems(p.Shape))
	}
	l.layers = append(l.layers, r)
	names := append(slices.Clone(*l.names.Load()), r.name)
	l.names.Store(&names)
	return r, nil
}

func elems(shape []int) int { return tensor.Shape(shape).Elems() }

// limit sets the deadline of calls to a process, and returns what the plugin is told.
func (l *Layers) limit(now *running[*remoteLayers]) time.Duration {
	if now.proc.attached() {
		return 0 // a debugger may hold it
	}
	now.queue.limit(l.Timeout + margin)
	return l.Timeout
}

// restore describes the layers to another process, and shares the memory with it.
func (l *Layers) restore(ctx context.Context, next *running[*remoteLayers]) error {
	for _, r := range l.layers {
		spec, err := next.ctl.describe(ctx, r, l.limit(next))
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(spec, r.LayerSpec) {
			return next.proc.error("describe", fmt.Errorf("another process of the same program described %s otherwise; fix: Describe must depend on its arguments alone", r.name))
		}
	}
	return l.share(next.proc)
}

// share shares the memory of the tensors with a process.
func (l *Layers) share(p *plugin) error {
	if l.arena == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.host.opts.StartTimeout)
	defer cancel()
	return p.error("attach", p.attach(ctx, l.id, "tensors", l.arena))
}

// room makes memory for a call that needs size bytes, and for calls of all layers with the same batch.
func (l *Layers) room(size, batch int, d tensor.DType) error {
	if size <= len(l.mem) {
		return nil
	}
	for _, r := range l.layers {
		for _, backward := range []bool{false, true} {
			_, _, total := r.lay(backward, batch, d)
			size = max(size, total)
		}
	}
	p := l.now.Load().proc
	if p.ring == nil {
		l.mem = tensor.Aligned(size)
		return nil
	}
	arena, err := shm.New("tensors", size)
	if err != nil {
		return err
	}
	old := l.arena
	l.arena, l.mem, l.id = arena, arena.Bytes(), l.id+1
	if old != nil {
		_ = old.Close() // nothing is in it between calls
	}
	err = l.share(p)
	if err != nil {
		err = l.replace(sdk.KindLayer, err, l.restore)
	}
	return err
}

func (r *RemoteLayer) lay(backward bool, batch int, d tensor.DType) (tensors []pb.LayerTensor, inputs, total int) {
	return pb.LayLayer(backward, r.SaveOutput, batch, r.in, r.out, r.params, d.Size())
}

// StepBytes is what a pass forward and back copies to the plugin and back for a batch.
func (r *RemoteLayer) StepBytes(batch int, d tensor.DType) (n int) {
	for _, backward := range []bool{false, true} {
		_, _, total := r.lay(backward, batch, d)
		n += total
	}
	return n
}

// Compute implements [op.Remote].
func (r *RemoteLayer) Compute(backward bool, d tensor.DType, batch int, in, out [][]byte) error {
	l := r.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		if err := r.compute(backward, d, batch, in, out); err != nil {
			l.broken = err
		}
	}
	return l.broken
}

func (r *RemoteLayer) compute(backward bool, d tensor.DType, batch int, in, out [][]byte) error {
	l := r.of
	tensors, inputs, total := r.lay(backward, batch, d)
	if len(tensors) != len(in)+len(out) {
		return fmt.Errorf("%s: %d tensors, want %d", r.name, len(in)+len(out), len(tensors))
	}
	if err := l.room(total, batch, d); err != nil {
		return err
	}
	l.op = operation{code: pb.OpForward, arena: l.id, size: total, inputs: inputs, call: sdk.Collective{Seq: uint64(r.number), DType: d, Count: batch, Buf: l.mem[:total]}}
	if backward {
		l.op.code = pb.OpBackward
	}
	err := l.repeatWith(sdk.KindLayer, l.restore, func(now *running[*remoteLayers]) error {
		for i, t := range tensors[:len(in)] { // again after a replacement, in case the process wrote there
			copy(l.mem[t.Offset:t.Offset+t.Size], in[i])
		}
		ticket, err := now.queue.submit(&l.op)
		if err == nil {
			err = now.queue.wait(ticket, nil)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, t := range tensors[len(in):] {
		copy(out[i], l.mem[t.Offset:t.Offset+t.Size])
	}
	return nil
}

// Described is the layer for the model's graph.
func (r *RemoteLayer) Described() op.Described {
	d := op.Described{Out: r.Shape, SaveOutput: r.SaveOutput, FLOPs: r.FLOPs, Remote: r}
	for _, p := range r.Params {
		d.Params = append(d.Params, op.OwnParam{Name: p.Name, Shape: p.Shape, Init: drawn(p.Init)})
	}
	return d
}

// drawn is how a parameter starts.
func drawn(i sdk.LayerInit) graph.Init {
	a, b := float32(i.A), float32(i.B)
	return func(m *rng.MT, v []float32) {
		switch i.Rule {
		case "uniform":
			m.UniformF32(v, a, b)
		case "normal":
			m.NormalF32(v, a)
		default:
			for k := range v {
				v[k] = a
			}
		}
	}
}

// Close ends the plugin; when ctx ends, at once. Later calls fail.
func (l *Layers) Close(ctx context.Context) error {
	err := l.close(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = ErrClosed
	}
	if l.mem = nil; l.arena != nil {
		err = errors.Join(err, l.arena.Close())
		l.arena = nil
	}
	return err
}

// Overdue describes a call that has been in flight for at least the given time; "" if there is none, or
// without shared memory.
func (l *Layers) Overdue(after time.Duration) string { return l.now.Load().proc.overdue(after) }

// remoteLayers calls a layer plugin over gRPC.
type remoteLayers struct{ p *plugin }

func (r *remoteLayers) describe(ctx context.Context, l *RemoteLayer, limit time.Duration) (spec sdk.LayerSpec, err error) {
	options, err := encodeOptions(l.request.Options)
	if err != nil {
		return spec, err
	}
	err = r.p.timely(ctx, "describe "+l.name, limit, func(ctx context.Context) error {
		reply, err := r.p.rpc.DescribeLayer(ctx, &pb.DescribeLayerRequest{
			Layer: int64(l.number), OptionsJson: options, Name: l.request.Name, Shape: pb.Integers[int64](l.request.Shape), TimeoutNs: int64(limit),
		})
		if err == nil {
			spec, err = layerFromProto(reply, l.request.Shape)
		}
		return err
	})
	return spec, err
}

// compute is the inline data plane.
func (r *remoteLayers) compute(ctx context.Context, o *operation, _ *sdk.ScaleState) error {
	c := &o.call
	if len(c.Buf) > pb.MaxMessage-4096 {
		return fmt.Errorf("the inline data plane carries at most %d bytes at a time, and this call has %d; fix: use a smaller batch, or shared memory", pb.MaxMessage-4096, len(c.Buf))
	}
	reply, err := r.p.rpc.Compute(ctx, &pb.ComputeRequest{
		Layer: int64(c.Seq), Backward: o.code == pb.OpBackward, Dtype: uint32(c.DType), Batch: int64(c.Count), Data: c.Buf[:o.inputs],
	})
	if err != nil {
		return err
	}
	if want := len(c.Buf) - o.inputs; len(reply.Data) != want {
		return fmt.Errorf("the plugin returned %d bytes, want %d", len(reply.Data), want)
	}
	copy(c.Buf[o.inputs:], reply.Data)
	return nil
}

var _ op.Remote = (*RemoteLayer)(nil)
