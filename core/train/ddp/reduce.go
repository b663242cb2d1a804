package ddp

import (
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Reducer averages gradients over ranks while backward is still running.
//
// Its memory is the buckets' regions of the group's arena; the plan writes
// gradients straight into them. A Reducer belongs to the goroutine of the
// training loop and allocates nothing after NewReducer.
type Reducer struct {
	group   *Group
	buckets []Bucket
	regions []Region // where gradients accumulate
	wire    []Region // from where they are sent
	codec   codec
	factors factors
	ready   *readiness
	tickets []uint64 // by bucket
	perStep int      // bytes
	overlap bool
	op      sdk.Op // that reduces buckets

	used   usedParams
	staged staging  // copies buckets that a device computes and the host reduces
	device *inPlace // unless staged, buckets that are reduced on the device; nil: in the arena

	sync    bool          // the pass under way communicates
	begun   bool          // a pass since the last synchronised one
	err     error         // of the pass under way
	flushed time.Time     // the last Flush
	before  time.Duration // exposed until then
}

// Layout places buckets one after another from offset on, each on a 64-byte
// boundary, and returns their regions and the end.
func Layout(buckets []Bucket, offset int) (regions []Region, end int) {
	for _, b := range buckets {
		offset = Align(offset)
		regions = append(regions, Region{offset, b.span})
		offset += b.span
	}
	return regions, Align(offset)
}

// Align rounds an offset up to a cache line.
func Align(n int) int { return (n + 63) &^ 63 }

// NewReducer makes a reducer for gradients that Assign put into buckets and Layout placed, and that
// are sent from the regions of LayoutWire.
func NewReducer(g *Group, cfg Config, grads []Gradient, buckets []Bucket, regions, wire []Region) *Reducer {
	names := make([]string, len(grads))
	for i, p := range grads {
		names[i] = p.Name
	}
	r := &Reducer{
		group: g, buckets: buckets, regions: regions, wire: wire, codec: newCodec(g, cfg), overlap: cfg.Overlap,
		ready: newReadiness(names, buckets), tickets: make([]uint64, len(buckets)), perStep: cfg.BytesPerStep(grads, buckets),
		op: sdk.OpAllReduce, factors: newFactors(g, cfg, grads, buckets, regions, wire), staged: staging{coming: make([]int, 0, len(buckets))},
	}
	return r
}

// FindUnused makes the ranks agree, with one more all-reduce per step, on which
// parameters took part in it (find_unused_parameters). at is UsageBytes long.
func (r *Reducer) FindUnused(at Region) {
	r.used = newUsedParams(r.group, at, len(r.ready.names))
}

// Used reports, after Finish, whether a parameter took part in the step on any
// rank. One that did not has no gradient: the optimizer leaves it alone.
func (r *Reducer) Used(param int) bool { return r.used.on(param) }

// Resume sets the number of steps before the first Begin.
func (r *Reducer) Resume(steps int) { r.factors.step = steps }

// Save copies, for Rollback, the state that the next synchronised step changes besides gradients.
// Only PowerSGD has more than a number to copy.
func (r *Reducer) Save() { r.factors.save() }

// Rollback restores the state of the last Save. Gradients are unspecified.
func (r *Reducer) Rollback() error {
	r.begun = false
	err := r.staged.settle()
	r.factors.rollback()
	return err
}

// Gradients returns views of the buckets' memory, by parameter index. A
// parameter without a bucket has a zero tensor.
func (r *Reducer) Gradients(grads []Gradient) []tensor.Tensor {
	views := make([]tensor.Tensor, len(grads))
	for b, bucket := range r.buckets {
		mem := r.group.Bytes(r.regions[b])
		for i, p := range bucket.Params {
			from := bucket.At[i]
			to := from + grads[p].Bytes()
			views[p] = tensor.Of(grads[p].DType, grads[p].Shape, mem[from:to:to])
		}
	}
	return views
}

// DivideLoss saves the pass that divides all gradients before the sum: where the divisor is a
// power of two, the passes divide the gradient of the loss instead, by multiplying it with
// LossFactor. Backward is linear in it, so every gradient has the same bits, as long as
// nothing on the way from the loss to the sum is float16, whose range is small. Call it before
// the first step, if no activation is float16. It does nothing if a bucket is of a half type,
// or compressed.
func (r *Reducer) DivideLoss() {
	for _, b := range r.buckets {
		if b.DType.Half() {
			return
		}
	}
	if r.codec.early = !r.codec.half.Valid() && len(r.factors.low) == 0; r.codec.early {
		r.codec.divide(r.group.World)
	}
}

// LossFactor is what every pass of a step multiplies the loss's gradient by, 1 unless
// DivideLoss was called.
func (r *Reducer) LossFactor() float64 { return r.codec.loss }

// Divide sets the number of ranks over which the following passes average; the default
// is all.
func (r *Reducer) Divide(ranks int) {
	r.codec.divide(ranks)
	r.factors.divide(ranks)
}

// Begin starts a backward pass. With sync false, gradients only accumulate in the buckets (DDP's
// no_sync): nothing is divided and nothing is sent.
func (r *Reducer) Begin(sync bool) {
	r.ready.reset()
	if !r.begun {
		r.used.reset()
	}
	r.begun = !sync
	r.sync = sync
	if r.device != nil {
		r.device.sent = r.device.sent[:0]
	}
	if sync {
		r.factors.step++
	}
	r.err = nil
}

// GradReady is the hook that the plan calls as soon as a gradient is complete.
func (r *Reducer) GradReady(param int) {
	r.used.mark(param)
	r.Unused(param)
}

// Unused is the hook for a parameter that takes no part in a pass: this rank contributes what the
// parameter's place in the bucket holds, zeros or the sum of other passes.
func (r *Reducer) Unused(param int) {
	from, to := r.ready.ready(param)
	if !r.sync || !r.overlap {
		return
	}
	_ = r.Arrive(false) // kept for Flush
	for b := from; b < to; b++ {
		r.launch(b)
	}
}

// launch starts sending a bucket to the other ranks.
func (r *Reducer) launch(b int) {
	switch {
	case r.err != nil || r.group.World == 1:
	case r.staged.on:
		r.err = r.staged.fetch(b)
	case r.device != nil:
		r.issue(b)
	default:
		r.pack(b)
	}
}

// pack starts the reduction of a bucket. The division comes first, here or in the loss
// (DivideLoss), so that the sum cannot overflow where the mean would not (reducer.cpp,
// mark_variable_ready_dense).
func (r *Reducer) pack(b int) {
	if s := r.factors.of(b); s != nil {
		s.project()
		r.send(b, tensor.F32, s.wire1)
		return
	}
	d, wire := r.buckets[b].DType, r.wireOf(b)
	r.codec.pack(d, r.regions[b], wire)
	r.send(b, r.codec.wireType(d), wire)
}

// wireOf is the memory from which a bucket is sent uncompressed.
func (r *Reducer) wireOf(b int) Region {
	if r.factors.buckets[b] != nil {
		return r.regions[b]
	}
	return r.wire[b]
}

func (r *Reducer) send(b int, d tensor.DType, wire Region) {
	r.tickets[b], r.err = r.group.submit(r.op, sdk.Sum, d, wire, 0, b)
}

// Flush sends the remaining buckets of Begin's pass, so that a collective called
// between Flush and Finish comes after all of the reducer's.
func (r *Reducer) Flush() error {
	r.flushed = time.Now()
	if err := r.ready.missing(); err != nil {
		return err
	}
	if !r.sync || r.group.World == 1 {
		return nil
	}
	r.before = r.group.exposed
	if !r.overlap {
		for b := range r.buckets {
			r.launch(b)
		}
	}
	if err := r.Arrive(true); err != nil {
		return err
	}
	if r.err == nil {
		r.err = r.used.send(r.group) // behind the buckets
	}
	for b := range r.buckets {
		r.sendSecond(b)
	}
	return r.err
}

// Finish waits until every bucket holds the average over ranks (after Scatter: in this rank's
// part), or will when Settle has been called; Flush comes before it. After an error the gradients are unusable: no rank may apply them.
func (r *Reducer) Finish() error {
	if !r.sync || r.group.World == 1 {
		return nil
	}
	for b := range r.buckets {
		r.finish(b)
	}
	if r.err == nil {
		r.err = r.used.wait(r.group)
	}
	r.group.exposed = r.before + time.Since(r.flushed) // unpacking included
	return r.err
}

// finish waits for a bucket's sum and unpacks it.
func (r *Reducer) finish(b int) {
	if r.err != nil {
		return
	}
	s, wire := r.factors.of(b), r.wireOf(b)
	if s != nil {
		wire = s.wire2
	}
	if r.err = r.group.wait(r.tickets[b], "bucket", b, wire); r.err != nil || r.device != nil && !r.staged.on {
		return
	}
	switch {
	case s != nil:
		s.restore()
	case r.op == sdk.OpReduceScatter:
		r.codec.unpack(r.buckets[b].DType, r.group.part(r.regions[b]), r.group.part(wire))
	default:
		r.codec.unpack(r.buckets[b].DType, r.regions[b], wire)
	}
	if r.staged.on {
		r.err = r.staged.copies.Store(b)
	}
}

// sendSecond waits for the first factors of a bucket that is sent as factors,
// and sends the second.
func (r *Reducer) sendSecond(b int) {
	s := r.factors.of(b)
	if r.err != nil || s == nil {
		return
	}
	if r.err = r.group.wait(r.tickets[b], "factors", b, s.wire1); r.err == nil {
		s.answer()
		r.send(b, tensor.F32, s.wire2)
	}
}

// BytesPerStep is [Config.BytesPerStep] of the reducer's buckets.
func (r *Reducer) BytesPerStep() int { return r.perStep }

// Buckets is the number of buckets that are reduced in one step.
func (r *Reducer) Buckets() int { return len(r.buckets) }
