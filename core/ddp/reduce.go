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
	regions []Region // where gradients gather
	wire    []Region // where they travel
	codec   codec
	low     []*powerSGD // by bucket, nil where it travels whole
	start   int         // step from which buckets travel as factors
	step    int         // synchronised steps begun
	ready   *readiness
	tickets []uint64
	sync    bool
	overlap bool
	err     error

	// Exposed is the time for which the last Finish waited: communication
	// that did not hide behind backward.
	Exposed time.Duration
}

// Layout places buckets one after another from offset on, each on a 64-byte
// boundary, and returns their regions and the end.
func Layout(buckets []Bucket, offset int) (regions []Region, end int) {
	for _, b := range buckets {
		offset = Align(offset)
		regions = append(regions, Region{offset, b.Bytes})
		offset += b.Bytes
	}
	return regions, Align(offset)
}

// Align rounds an offset up to a cache line.
func Align(n int) int { return (n + 63) &^ 63 }

// NewReducer makes a reducer for gradients that were put into buckets by
// Assign and placed by Layout, and that travel where LayoutWire says.
func NewReducer(g *Group, cfg Config, grads []Gradient, buckets []Bucket, regions, wire []Region) *Reducer {
	names := make([]string, len(grads))
	for i, p := range grads {
		names[i] = p.Name
	}
	r := &Reducer{
		group: g, buckets: buckets, regions: regions, wire: wire, codec: newCodec(g, cfg), overlap: cfg.Overlap,
		ready: newReadiness(names, buckets), tickets: make([]uint64, len(buckets)),
		low: make([]*powerSGD, len(buckets)), start: cfg.PowerSGDStart,
	}
	if cfg.Compress == "powersgd" {
		for i, b := range buckets {
			if l := newLowRank(grads, b, cfg.PowerSGDRank); l != nil {
				r.low[i] = newPowerSGD(g, l, regions[i], wire[i])
			}
		}
	}
	return r
}

// Resume says how many steps were made before the first Begin.
func (r *Reducer) Resume(steps int) { r.step = steps }

// Gradients returns views of the buckets' memory, by parameter index. A
// parameter without a bucket has a zero tensor.
func (r *Reducer) Gradients(grads []Gradient) []tensor.Tensor {
	views := make([]tensor.Tensor, len(grads))
	for b, bucket := range r.buckets {
		mem := r.group.Bytes(r.regions[b])
		for _, p := range bucket.Params {
			n := grads[p].Bytes()
			views[p] = tensor.Of(grads[p].DType, grads[p].Shape, mem[:n:n])
			mem = mem[n:]
		}
	}
	return views
}

// Divide sets over how many ranks the following passes average: all of them
// until it is called.
func (r *Reducer) Divide(ranks int) {
	r.codec.divide(ranks)
	for _, s := range r.low {
		if s != nil {
			s.over = ranks
		}
	}
}

// Begin starts a backward pass. With sync false, gradients only gather in the
// buckets (DDP's no_sync): nothing is divided and nothing is sent.
func (r *Reducer) Begin(sync bool) {
	r.ready.reset()
	r.sync = sync
	if sync {
		r.step++
	}
	r.err = nil
}

// GradReady is the hook the plan calls the moment a gradient is complete.
func (r *Reducer) GradReady(param int) {
	from, to := r.ready.ready(param)
	if !r.sync || !r.overlap {
		return
	}
	for b := from; b < to; b++ {
		r.launch(b)
	}
}

// launch packs a bucket and starts its all-reduce. The division comes first,
// so that the sum cannot overflow where the mean would not (reducer.cpp,
// mark_variable_ready_dense).
func (r *Reducer) launch(b int) {
	if r.err != nil || r.group.World == 1 {
		return
	}
	if s := r.low[b]; s != nil && r.step > r.start {
		s.project()
		r.send(b, tensor.F32, s.wire1)
		return
	}
	d, wire := r.buckets[b].DType, r.wireOf(b)
	r.codec.pack(d, r.regions[b], wire)
	r.send(b, r.codec.wireType(d), wire)
}

// wireOf is where a bucket travels whole.
func (r *Reducer) wireOf(b int) Region {
	if r.low[b] != nil {
		return r.regions[b]
	}
	return r.wire[b]
}

func (r *Reducer) send(b int, d tensor.DType, wire Region) {
	r.tickets[b], r.err = r.group.submit(sdk.OpAllReduce, sdk.Sum, d, wire, 0, b)
}

// Finish waits until every bucket holds the average over ranks. After an
// error the gradients are unusable: no rank may apply them.
func (r *Reducer) Finish() error {
	r.Exposed = 0
	if err := r.ready.missing(); err != nil {
		return err
	}
	if !r.sync || r.group.World == 1 {
		return nil
	}
	start := time.Now()
	if !r.overlap {
		for b := range r.buckets {
			r.launch(b)
		}
	}
	for b := range r.buckets {
		r.turn(b)
	}
	for b := range r.buckets {
		r.land(b)
	}
	r.Exposed = time.Since(start)
	return r.err
}

// land waits for a bucket's sum and unpacks it.
func (r *Reducer) land(b int) {
	if r.err != nil {
		return
	}
	s, wire := r.low[b], r.wireOf(b)
	factors := s != nil && r.step > r.start
	if factors {
		wire = s.wire2
	}
	if r.err = r.group.wait(r.tickets[b], "bucket", b, wire); r.err != nil {
		return
	}
	if factors {
		s.restore()
		return
	}
	r.codec.unpack(r.buckets[b].DType, r.regions[b], wire)
}

// turn waits for the first factors of a bucket that travels as factors, and
// sends the second.
func (r *Reducer) turn(b int) {
	s := r.low[b]
	if r.err != nil || s == nil || r.step <= r.start {
		return
	}
	if r.err = r.group.wait(r.tickets[b], "factors", b, s.wire1); r.err == nil {
		s.answer()
		r.send(b, tensor.F32, s.wire2)
	}
}

// BytesPerStep is the memory that is all-reduced in one step, in the type in
// which it travels; with PowerSGD, from its start on.
func (r *Reducer) BytesPerStep() int { return Bytes(r.wire) }

// Bytes adds up regions.
func Bytes(regions []Region) int {
	n := 0
	for _, r := range regions {
		n += r.Size
	}
	return n
}

// Buckets is the number of all-reduces in one step.
func (r *Reducer) Buckets() int { return len(r.buckets) }
