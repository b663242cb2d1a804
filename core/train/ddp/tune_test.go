package ddp

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trainctl/trainctl/core/tensor"
)

// pipeline is Exposed, spelled out event by event: what has arrived, what is on
// the wire, what is done.
func pipeline(p Pace, buckets []Bucket) time.Duration {
	done := time.Duration(0)
	for _, b := range buckets {
		arrived := time.Duration(0)
		for _, param := range b.Params {
			arrived = max(arrived, p.Ready[param])
		}
		start := arrived
		if done > start {
			start = done
		}
		done = start + p.Alpha + time.Duration(float64(b.Bytes)*p.Beta)
	}
	return max(done-p.End, 0)
}

func anyPace(t *rapid.T) (gs []Gradient, p Pace) {
	n := rapid.IntRange(1, 30).Draw(t, "gradients")
	at := time.Duration(0)
	for range n {
		d := rapid.SampledFrom([]tensor.DType{tensor.F32, tensor.F32, tensor.F16}).Draw(t, "type")
		gs = append(gs, Gradient{Name: "w", DType: d, Shape: tensor.Shape{rapid.IntRange(1, 1<<21).Draw(t, "elements")}})
		at += time.Duration(rapid.IntRange(0, 5_000_000).Draw(t, "ns"))
		p.Ready = append(p.Ready, at)
	}
	p.End = at
	p.Alpha = time.Duration(rapid.IntRange(0, 1_000_000).Draw(t, "alpha"))
	p.Beta = rapid.Float64Range(0.001, 5).Draw(t, "beta")
	return gs, p
}

// Neither powers of two nor the default expose noticeably less than the caps that
// are chosen, and none of those that are as good make fewer buckets.
func TestTune(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gs, p := anyPace(t)
		cfg := Default()
		first, rest := cfg.Tune(gs, seq(len(gs)), p)
		chosen := Assign(gs, seq(len(gs)), int(first*MiB), int(rest*MiB))
		got := p.Exposed(cfg, gs, chosen)
		if want := pipeline(p, chosen); got != want {
			t.Fatalf("exposed %v, want %v", got, want)
		}
		for _, c := range [][2]int{{1, 25}, {1, 1}, {25, 25}, {1024, 1024}, {2, 8}} {
			other := Assign(gs, seq(len(gs)), c[0]*MiB, c[1]*MiB)
			e := p.Exposed(cfg, gs, other)
			if e+p.slack() < got {
				t.Fatalf("caps %v: exposed %v; chosen %v and %v: %v", c, e, first, rest, got)
			}
			if e <= got-p.slack() && len(other) < len(chosen) {
				t.Fatalf("caps %v are as good with %d buckets, chosen %d", c, len(other), len(chosen))
			}
		}
	})
}

// The default's 25 MiB is chosen where no power of two separates the last gradient
// from what is reduced during the pass with as few buckets.
func TestTuneKnowsTheDefault(t *testing.T) {
	gs := []Gradient{
		{DType: tensor.F32, Shape: tensor.Shape{20 * MiB / 4}},
		{DType: tensor.F32, Shape: tensor.Shape{6 * MiB / 4}},
		{DType: tensor.F32, Shape: tensor.Shape{1}},
	}
	p := Pace{Ready: []time.Duration{0, 0, time.Second}, End: time.Second, Alpha: 50 * time.Microsecond, Beta: 1}
	cfg := Default()
	if first, rest := cfg.Tune(gs, seq(3), p); first != 25 || rest != 25 {
		t.Errorf("caps %v and %v, want 25 and 25", first, rest)
	}
}

// Costly messages want one bucket, costly bytes many, unless all gradients come at the end.
func TestTuneFollowsTheCosts(t *testing.T) {
	var gs []Gradient
	p := Pace{End: 100 * time.Millisecond}
	for i := range 20 {
		gs = append(gs, Gradient{Name: "w", DType: tensor.F32, Shape: tensor.Shape{MiB / 4}})
		p.Ready = append(p.Ready, time.Duration(i+1)*5*time.Millisecond)
	}
	buckets := func(p Pace) int {
		cfg := Default()
		first, rest := cfg.Tune(gs, seq(20), p)
		return len(Assign(gs, seq(20), int(first*MiB), int(rest*MiB)))
	}
	p.Alpha, p.Beta = 200*time.Millisecond, 0.01
	if n := buckets(p); n != 1 {
		t.Errorf("costly messages: %d buckets", n)
	}
	p.Alpha, p.Beta = 10*time.Microsecond, 4
	if n := buckets(p); n < 10 {
		t.Errorf("costly bytes: %d buckets", n)
	}
	for i := range p.Ready {
		p.Ready[i] = p.End
	}
	if n := buckets(p); n != 1 {
		t.Errorf("all at the end: %d buckets", n)
	}
}
