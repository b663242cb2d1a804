package outline

import (
	"time"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// Nominal costs of a core and of a backend, for an estimate before anything is
// measured: only their ratio matters for the choice of buckets.
const (
	nominalFLOPS = 50e9
	nominalBytes = 5e9 // per second
	nominalAlpha = 30 * time.Microsecond
	NominalBeta  = 0.3 // ns per byte
)

// forecastPace estimates the time of a pass from the operations and bytes of its steps.
func forecastPace(p *plan.Plan, params int) ddp.Pace {
	pace := ddp.Pace{Ready: make([]time.Duration, params), Alpha: nominalAlpha, Beta: NominalBeta}
	var at float64
	for i := range p.Steps() {
		s := &p.Steps()[i]
		at += max(float64(s.FLOPs)/nominalFLOPS, float64(s.Bytes)/nominalBytes)
		for _, param := range s.Complete {
			pace.Ready[param] = time.Duration(at * float64(time.Second))
		}
	}
	pace.End = time.Duration(at * float64(time.Second))
	return pace
}

// Fill chooses caps that are "auto" and creates the buckets.
func (o *Outline) Fill(cfg *ddp.Config, pace func() ddp.Pace) {
	if cfg.BucketCapMB.IsAuto() {
		first, rest := cfg.Tune(o.Gradients, o.Plan.GradOrder(), pace())
		cfg.FirstBucketMB, cfg.BucketCapMB = float64(first), rest
	}
	first, rest := cfg.Caps()
	o.CapsMB = [2]float64{cfg.FirstBucketMB, float64(cfg.BucketCapMB)}
	o.Buckets = o.assign(first, rest)
}

// assign makes the buckets of these caps, in bytes.
func (o *Outline) assign(first, rest int) []ddp.Bucket {
	buckets := ddp.Assign(o.Gradients, o.Plan.GradOrder(), first, rest)
	if o.shards > 1 {
		ddp.Pad(buckets, o.shards)
	}
	return buckets
}

// Owned is the number of elements whose optimizer state a rank has.
func (o *Outline) Owned(rank int) (n int) {
	for _, b := range o.Buckets {
		for i, p := range b.Params {
			n += b.Part(i, o.Gradients[p].Shape.Elems(), rank%o.shards, o.shards).Len()
		}
	}
	return n
}

// bucketRoom is the memory that buckets and their copies may need with any caps: "auto"
// caps are measured after the memory has been shared.
func (o *Outline) bucketRoom(cfg ddp.Config) (room int) {
	for _, limit := range []int{0, 1 << 50} { // one for each, or one for all of a type
		buckets := o.assign(limit, limit)
		regions, end := ddp.Layout(buckets, 0)
		_, end = cfg.LayoutWire(o.Gradients, buckets, regions, end)
		room = max(room, end)
	}
	return room + 2*ddp.Align(1)*len(o.Gradients) // buckets in between begin on cache lines, gradients on multiples of less
}
