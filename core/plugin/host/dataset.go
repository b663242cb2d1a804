package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// Dataset is a dataset plugin in use; see [Batches].
type Dataset struct {
	// Timeout bounds one batch, and opening; set before Open, 0 = as long as the plugin lives.
	Timeout time.Duration
	// Validation is the share of the training samples that take the test split's place; set
	// before Open, 0 = none.
	Validation float64

	replaceable[datasetControl]
	request sdk.DatasetRequest // of Open
	spec    *sdk.DatasetSpec   // nil before Open
	held    *heldOut           // nil without Validation
	arena   *shm.Arena         // of the slots; nil without shared memory

	op    operation
	slots []batchSlot
	mem   []byte // of all slots
}

// batchSlot is the memory of one requested batch.
type batchSlot struct {
	ticket  uint64    // 0 = nothing was requested
	filled  bool      // the request has ended
	asked   sdk.Batch // the request; its indices are a copy that the plugin does not see
	indices []int64
	input   []byte
	target  []byte
	at      struct{ indices, input, target int } // offsets in the arena
}

type datasetControl interface {
	// open also returns the classes of the training samples, if they are wanted and known.
	open(ctx context.Context, req sdk.DatasetRequest, timeout time.Duration, classes bool) (sdk.DatasetSpec, []int32, error)
}

// batchArena is the id of the only arena of a dataset.
const batchArena = 1

// StartDataset starts a data set: a built-in name or a path. The error is a
// *StartError.
func (h *Host) StartDataset(ctx context.Context, name string) (*Dataset, error) {
	if b := h.inRank(sdk.KindDataset, name); b != nil {
		return inProcessDataset(b.Plugin.Dataset(), h.opts.Log.With("plugin", name)), nil
	}
	d := &Dataset{}
	err := d.launch(ctx, processes(h, sdk.KindDataset, name, func(p *plugin) (datasetControl, operate) {
		r := &remoteDataset{p}
		return r, r.fill
	}))
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Open implements [Batches]. Log records of the plugin go to the host's Log;
// req.Log is only used by an instance in this process.
func (d *Dataset) Open(ctx context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	if err := CheckValidation(d.Info(), d.Validation); err != nil {
		return sdk.DatasetSpec{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	req.Validation, req.HeldOut = d.Validation > 0, d.Validation
	d.request = req
	spec, err := d.open(ctx, d.now.Load())
	for err != nil {
		if err = d.replace(sdk.KindDataset, err, func(_ context.Context, next *running[datasetControl]) (err error) {
			spec, err = d.open(ctx, next)
			return err
		}); err != nil {
			return spec, err
		}
	}
	d.spec = &spec
	return spec, nil
}

// open opens the data set in a process.
func (d *Dataset) open(ctx context.Context, now *running[datasetControl]) (sdk.DatasetSpec, error) {
	timeout := d.Timeout
	if now.proc.attached() {
		timeout = 0 // a debugger may hold it
	}
	inner, cancel := bounded(ctx, timeout)
	defer cancel()
	spec, classes, err := now.ctl.open(inner, d.request, timeout, d.Validation > 0)
	if err != nil && inner.Err() != nil && ctx.Err() == nil {
		return spec, &PluginError{Kind: sdk.KindDataset, Name: now.info.Name, PID: d.PID(), Phase: "open",
			Cause: fmt.Errorf("it did not open within dataset.timeout = %v; fix: raise dataset.timeout if the data take that long to read or download: %w", timeout, err)}
	}
	if err != nil {
		return spec, dataError(ctx, err)
	}
	if d.Validation > 0 {
		if d.held, err = divide(&spec, d.Validation, d.request.Seed, classes); err != nil {
			return spec, err
		}
	}
	if timeout > 0 {
		now.queue.limit(timeout + margin)
	}
	return spec, nil
}

// restore opens the same data in another process, shares the slots with it and repeats
// the requests that have not ended.
func (d *Dataset) restore(ctx context.Context, next *running[datasetControl]) error {
	spec, err := d.open(ctx, next)
	if err != nil {
		return err
	}
	if !sameData(spec, *d.spec) {
		return &DataError{fmt.Errorf("dataset plugin %q was replaced and now opens other data than before (%s instead of %s); fix: do not change the data during a run", next.info.Name, spec.Fingerprint, d.spec.Fingerprint)}
	}
	if d.arena != nil {
		if err := d.share(next.proc); err != nil {
			return err
		}
	}
	var open []*batchSlot
	for i := range d.slots {
		if s := &d.slots[i]; s.ticket != 0 && !s.filled {
			open = append(open, s)
		}
	}
	slices.SortFunc(open, func(a, b *batchSlot) int { return cmp.Compare(a.ticket, b.ticket) })
	for _, s := range open {
		if err := d.submit(next, s); err != nil {
			return err
		}
	}
	return nil
}

// sameData reports whether two processes opened the same samples.
func sameData(a, b sdk.DatasetSpec) bool {
	a.Notice, b.Notice, a.Source, b.Source = "", "", "", "" // what was read or downloaded, and from where
	return reflect.DeepEqual(a, b)
}

// bounded returns a context with a timeout, which may be 0: none.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// Prepare implements [Batches].
func (d *Dataset) Prepare(slots, batch int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slots < 1 || slots > shm.Slots || batch < 1 || d.slots != nil {
		return fmt.Errorf("%d batch slots of %d samples (at most %d slots, and once)", slots, batch, shm.Slots)
	}
	prepared := make([]batchSlot, slots)
	size := 0
	for i := range prepared {
		size = prepared[i].lay(size, batch, d.spec)
	}
	mem, err := d.allocate(size)
	if err != nil {
		return err
	}
	for i := range prepared {
		prepared[i].cut(mem, batch, d.spec)
	}
	d.slots, d.mem = prepared, mem
	return nil
}

// Memory returns the memory of all slots, after Prepare.
func (d *Dataset) Memory() []byte { return d.mem }

// lay places a slot at an offset and returns its end.
func (s *batchSlot) lay(at, batch int, spec *sdk.DatasetSpec) int {
	s.at.indices = at
	s.at.input = s.at.indices + tensor.RoundUp(8*batch, align)
	s.at.target = s.at.input + tensor.RoundUp(batch*spec.Input.Bytes(), align)
	return s.at.target + tensor.RoundUp(batch*spec.Target.Bytes(), align)
}

func (s *batchSlot) cut(mem []byte, batch int, spec *sdk.DatasetSpec) {
	part := func(at, n int) []byte { return mem[at : at+n : at+n] }
	s.indices = tensor.View[int64](part(s.at.indices, 8*batch))
	s.asked.Indices = make([]int64, 0, batch)
	s.input = part(s.at.input, batch*spec.Input.Bytes())
	s.target = part(s.at.target, batch*spec.Target.Bytes())
}

// allocate allocates the memory of all slots, in shared memory if possible.
func (d *Dataset) allocate(size int) ([]byte, error) {
	p := d.now.Load().proc
	if p == nil || p.ring == nil {
		return tensor.Aligned(size), nil
	}
	arena, err := shm.New("batches", size)
	if err != nil {
		return nil, err
	}
	d.arena = arena
	if err := d.share(p); err != nil {
		if err := d.replace(sdk.KindDataset, err, d.restore); err != nil {
			return nil, err // Close closes the arena
		}
	}
	return arena.Bytes(), nil
}

// share shares the slots' memory with a process.
func (d *Dataset) share(p *plugin) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.host.opts.StartTimeout)
	defer cancel()
	return p.error("attach", p.attach(ctx, batchArena, "batches", d.arena))
}

// Request implements [Batches].
func (d *Dataset) Request(slot int, split sdk.Split, epoch int, seed uint64, indices []int64) error {
	return d.RequestBatch(slot, &sdk.Batch{Split: split, Epoch: epoch, Seed: seed, Indices: indices})
}

// RequestBatch is Request of a batch without memory, which may also set NoAugment.
func (d *Dataset) RequestBatch(slot int, b *sdk.Batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slot < 0 || slot >= len(d.slots) {
		return fmt.Errorf("batch slot %d of %d", slot, len(d.slots))
	}
	s, n := &d.slots[slot], len(b.Indices)
	if n > len(s.indices) {
		return fmt.Errorf("batch of %d samples in a slot for %d", n, len(s.indices))
	}
	s.asked = sdk.Batch{Split: b.Split, Epoch: b.Epoch, Seed: b.Seed, NoAugment: b.NoAugment, Indices: append(s.asked.Indices[:0], b.Indices...)}
	s.filled = false
	held, err := d.held.find(b.Split, s.asked.Indices)
	if err != nil {
		return err
	}
	if held {
		s.asked.Split, s.asked.NoAugment = sdk.Train, true
	}
	err = d.submit(d.now.Load(), s)
	if err == nil || !d.replaces() {
		return err
	}
	s.ticket = math.MaxUint64 // the last of those to be repeated
	return d.replace(sdk.KindDataset, err, d.restore)
}

// submit requests what a slot was asked for from a process. d.mu is held.
func (d *Dataset) submit(now *running[datasetControl], s *batchSlot) error {
	n := copy(s.indices, s.asked.Indices)
	d.op = operation{
		code: pb.OpFill, arena: batchArena,
		indices: uint64(s.at.indices), input: uint64(s.at.input), target: uint64(s.at.target), batch: s.asked,
	}
	b := &d.op.batch
	b.Indices, b.Input, b.Target = s.indices[:n], s.input[:n*d.spec.Input.Bytes()], s.target[:n*d.spec.Target.Bytes()]
	ticket, err := now.queue.submit(&d.op)
	s.ticket = ticket
	return err
}

// Wait implements [Batches].
func (d *Dataset) Wait(slot int) (input, target []byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slot < 0 || slot >= len(d.slots) || d.slots[slot].ticket == 0 {
		return nil, nil, fmt.Errorf("nothing was requested for batch slot %d", slot)
	}
	s := &d.slots[slot]
	for !s.filled {
		now, ticket := d.now.Load(), s.ticket
		d.mu.Unlock()
		err := now.queue.wait(ticket, nil)
		d.mu.Lock()
		switch {
		case d.now.Load() != now: // replaced meanwhile
			continue
		case err != nil && mayRestart(err) && d.replaces():
			if err = d.replace(sdk.KindDataset, err, d.restore); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, nil, fillError(err)
		}
		s.filled = true
	}
	n := len(s.asked.Indices)
	return s.input[:n*d.spec.Input.Bytes()], s.target[:n*d.spec.Target.Bytes()], nil
}

// Close implements [Batches].
func (d *Dataset) Close(ctx context.Context) error {
	var err error
	if now := d.now.Load(); now.proc != nil {
		err = d.close(ctx)
	} else {
		now.queue.close()
		err = now.ctl.(*localDataset).Close()
	}
	if d.arena != nil {
		err = errors.Join(err, d.arena.Close())
	}
	return err
}

// remoteDataset calls a data set over gRPC.
type remoteDataset struct{ p *plugin }

func (r *remoteDataset) open(ctx context.Context, req sdk.DatasetRequest, timeout time.Duration, classes bool) (sdk.DatasetSpec, []int32, error) {
	encoded, err := encodeOptions(req.Options)
	if err != nil {
		return sdk.DatasetSpec{}, nil, err
	}
	reply, err := r.p.rpc.OpenDataset(ctx, &pb.OpenDatasetRequest{
		OptionsJson: encoded, Rank: int64(req.Rank), LocalRank: int64(req.LocalRank), WorldSize: int64(req.WorldSize),
		Seed: req.Seed, TimeoutNs: int64(timeout), TrainClasses: classes, HeldOut: req.HeldOut,
	})
	if err != nil {
		return sdk.DatasetSpec{}, nil, r.p.error("open", err)
	}
	spec, err := specFromProto(reply)
	return spec, reply.TrainClasses, r.p.error("open", err)
}

func (r *remoteDataset) fill(ctx context.Context, op *operation, _ *sdk.ScaleState) error {
	b := &op.batch
	reply, err := r.p.rpc.Fill(ctx, &pb.FillRequest{Split: uint32(b.Split), Epoch: int64(b.Epoch), Seed: b.Seed, NoAugment: b.NoAugment, Indices: b.Indices})
	if err != nil {
		return err
	}
	if len(reply.Input) != len(b.Input) || len(reply.Target) != len(b.Target) {
		return fmt.Errorf("the plugin returned %[3]d and %[4]d bytes for a batch of %[1]d and %[2]d", len(b.Input), len(b.Target), len(reply.Input), len(reply.Target))
	}
	copy(b.Input, reply.Input)
	copy(b.Target, reply.Target)
	return nil
}

// localDataset is an instance in this process.
type localDataset struct {
	local[sdk.Dataset]
	log *slog.Logger // if the request has none
}

// InProcessDataset runs an instance in this process.
func InProcessDataset(d sdk.Dataset) *Dataset {
	return inProcessDataset(d, slog.New(slog.DiscardHandler))
}

func inProcessDataset(d sdk.Dataset, log *slog.Logger) *Dataset {
	l := &localDataset{newLocal(sdk.KindDataset, d), log}
	out := &Dataset{}
	out.now.Store(&running[datasetControl]{info: l.info, ctl: l, queue: l.queue(l.fill)})
	return out
}

func (l *localDataset) open(ctx context.Context, req sdk.DatasetRequest, _ time.Duration, _ bool) (spec sdk.DatasetSpec, classes []int32, err error) {
	if req.Log == nil {
		req.Log = l.log
	}
	spec, err = get(&l.local, func() (sdk.DatasetSpec, error) { return l.instance.Open(ctx, req) })
	if c, ok := l.instance.(sdk.DatasetClasses); ok && err == nil {
		classes = c.TrainClasses()
	}
	return spec, classes, err
}

func (l *localDataset) fill(ctx context.Context, op *operation, _ *sdk.ScaleState) error {
	return l.instance.Fill(ctx, &op.batch)
}

var _ Batches = (*Dataset)(nil)

// Overdue describes a batch that has been outstanding for at least the given time;
// "" if there is none, or without shared memory.
func (d *Dataset) Overdue(after time.Duration) string { return d.now.Load().proc.overdue(after) }
