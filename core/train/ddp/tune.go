package ddp

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Cap is a number of MiB, or "auto" in TOML.
type Cap float64

// AutoCap lets trainctl choose the caps of buckets.
var AutoCap = Cap(math.Inf(1))

// IsAuto reports whether trainctl chooses the cap.
func (c Cap) IsAuto() bool { return math.IsInf(float64(c), 1) }

func (c Cap) String() string {
	if c.IsAuto() {
		return "auto"
	}
	s := strconv.FormatFloat(float64(c), 'g', -1, 64)
	if float64(c) == math.Trunc(float64(c)) && math.Abs(float64(c)) < 1e15 {
		s += ".0"
	}
	return s
}

// UnmarshalTOML takes a number or "auto".
func (c *Cap) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case int64:
		*c = Cap(v)
		return nil
	case float64:
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			*c = Cap(v)
			return nil
		}
	case string:
		if v == "auto" {
			*c = AutoCap
			return nil
		}
	}
	return fmt.Errorf("want a number of MiB, or \"auto\", got %v", v)
}

// SchemaForms are the JSON Schemas of what UnmarshalTOML takes.
func (Cap) SchemaForms() []map[string]any {
	return []map[string]any{{"type": "number", "minimum": 0}, {"enum": []string{"auto"}}}
}

// MarshalText is String.
func (c Cap) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// MarshalJSON writes a number, or "auto".
func (c Cap) MarshalJSON() ([]byte, error) {
	if c.IsAuto() {
		return []byte(`"auto"`), nil
	}
	return []byte(c.String()), nil
}

// Pace is the measurement from which buckets are chosen: when gradients become
// complete, and the cost of an all-reduce.
type Pace struct {
	Ready []time.Duration // by parameter, from the start of the pass
	End   time.Duration   // of the pass
	Alpha time.Duration   // of an all-reduce, however small
	Beta  float64         // nanoseconds per additional byte
}

// Exposed is the time from the end of the pass until the last bucket is reduced.
// Buckets are reduced one after the other, in index order.
func (p Pace) Exposed(cfg Config, grads []Gradient, buckets []Bucket) time.Duration {
	var free time.Duration // the backend, from here on
	for _, b := range buckets {
		for _, param := range b.Params {
			free = max(free, p.Ready[param])
		}
		n := cfg.wireBytes(grads, b)
		if n == 0 {
			n = b.Bytes
		}
		free += p.Alpha + time.Duration(p.Beta*float64(n))
	}
	return max(0, free-p.End)
}

// tunedCaps are those that Tune chooses among, the smallest first: powers of two
// and the default, so that "auto" never exposes more than the default.
var tunedCaps = func() (caps []Cap) {
	for c := Cap(1.0 / 32); c <= 1024; c *= 2 {
		caps = append(caps, c)
	}
	caps = append(caps, Default().BucketCapMB)
	slices.Sort(caps)
	return caps
}()

// Tune chooses the caps of the first and of the other buckets among tunedCaps
// so that as little communication as possible is exposed. Every message
// takes time of cores that compute meanwhile, which the model does not know, so
// among nearly equal choices that with the fewest buckets is taken.
func (c Config) Tune(grads []Gradient, arrival []int, p Pace) (first, rest Cap) {
	type choice struct {
		first, rest Cap
		buckets     int
		exposed     time.Duration
	}
	var all []choice
	best := time.Duration(math.MaxInt64)
	for i, r := range tunedCaps {
		for _, f := range tunedCaps[:i+1] {
			b := Assign(grads, arrival, int(f*MiB), int(r*MiB))
			all = append(all, choice{f, r, len(b), p.Exposed(c, grads, b)})
			best = min(best, all[len(all)-1].exposed)
		}
	}
	all = slices.DeleteFunc(all, func(c choice) bool { return c.exposed > best+p.slack() })
	chosen := slices.MinFunc(all, func(a, b choice) int { // the first of equals: the smallest caps
		return cmp.Or(cmp.Compare(a.buckets, b.buckets), cmp.Compare(a.exposed, b.exposed))
	})
	return chosen.first, chosen.rest
}

// slack is a difference too small to be noticed in a step.
func (p Pace) slack() time.Duration { return max(5*time.Microsecond, p.End/2000) }
