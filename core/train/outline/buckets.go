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
	o.Buckets = ddp.Assign(o.Gradients, o.Plan.GradOrder(), first, rest)
}

// bucketRoom is the memory that buckets and their copies may need with any caps: "auto"
// caps are measured after the memory has been shared.
func bucketRoom(cfg ddp.Config, grads []ddp.Gradient, arrival []int) (room int) {
	for _, limit := range []int{0, 1 << 50} { // one for each, or one for all of a type
		buckets := ddp.Assign(grads, arrival, limit, limit)
		regions, end := ddp.Layout(buckets, 0)
		_, end = cfg.LayoutWire(grads, buckets, regions, end)
		room = max(room, end)
	}
	return room + 2*ddp.Align(1)*len(grads) // buckets in between begin on cache lines, gradients on multiples of less
}
