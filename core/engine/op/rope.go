package op

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// RopeScaling slows down rotary positions, for contexts longer than those of a model's first training. A
// frequency f, in radians per position, of pair j becomes f·((1−s)/Factor + s) with
//
//	s = (Context·f/2π − Pairs·j − Low)/(High − Low), between 0 and 1.
//
// Context·f/2π is how many periods fit the first training's context: "llama3" of transformers. In "yarn"
// (Peng et al., 2023, arXiv:2309.00071), s falls with the pair, and rotated queries and keys are multiplied by
// Gain. "linear" has s = 0. "longrope" (Ding et al., 2024, arXiv:2402.13753) divides the frequency of each pair
// by one of Divisors. The zero value changes nothing.
type RopeScaling struct {
	Factor, Low, High, Context, Pairs, Gain float64
	Divisors                                []float64
}

// RopeScalingKeys are the arguments that describe a RopeScaling.
var RopeScalingKeys = []Key{ropeType, ropeFactor, ropeLow, ropeHigh, ropeContext, ropeFast, ropeSlow, ropeGain, ropeScale, ropeScaleAll, ropeTruncate, ropeShort, ropeLong}

const (
	ropeDefault = "default"
	ropeLinear  = "linear"
	// RopeDynamic changes rope_theta by the length of the samples, and RopeLong the divisors of frequencies.
	RopeDynamic = "dynamic"
	RopeYaRN    = "yarn"
	RopeLong    = "longrope"
	ropeLlama3  = "llama3"
)

var (
	ropeType     = Key{Name: "rope_type", Kind: String, Enum: []string{ropeDefault, ropeLinear, RopeDynamic, RopeYaRN, RopeLong, ropeLlama3}, Noun: "scaling of rotary positions", Doc: `how rotary positions are scaled for long contexts, as in transformers: "default" (not), "linear", "dynamic", "yarn", "longrope" or "llama3"`}
	ropeFactor   = Key{Name: "rope_factor", Kind: Float, Positive: true, Default: 1, Doc: `factor by which rotary frequencies are divided, for every rope_type but the default; of "longrope", only the default of rope_attention_factor depends on it`}
	ropeLow      = Key{Name: "rope_low_freq_factor", Kind: Float, Positive: true, Default: 1, Doc: `"llama3": frequencies with fewer periods in the original context are divided by rope_factor; default 1`}
	ropeHigh     = Key{Name: "rope_high_freq_factor", Kind: Float, Positive: true, Default: 4, Doc: `"llama3": frequencies with more periods in the original context stay; default 4`}
	ropeContext  = Key{Name: "rope_original_max_position_embeddings", Min: 1, Default: 8192, Doc: `"dynamic", "yarn", "longrope", "llama3": context length of the original training; default 8192, in the model llama max_position_embeddings, except for "llama3"`}
	ropeFast     = Key{Name: "rope_beta_fast", Kind: Float, Positive: true, Default: 32, Doc: `"yarn": pairs that turn more often than this in the original context stay; default 32`}
	ropeSlow     = Key{Name: "rope_beta_slow", Kind: Float, Positive: true, Default: 1, Doc: `"yarn": pairs that turn less often are divided by rope_factor; default 1`}
	ropeGain     = Key{Name: "rope_attention_factor", Kind: Float, Positive: true, Doc: `"yarn", "longrope": factor of rotated queries and keys; default 0.1·ln(rope_factor) + 1, for "longrope" √(1 + ln(rope_factor)/ln(rope_original_max_position_embeddings))`}
	ropeScale    = Key{Name: "rope_mscale", Kind: Float, Positive: true, Doc: `"yarn": with rope_mscale_all_dim, rope_attention_factor is (0.1·rope_mscale·ln(rope_factor) + 1) / (0.1·rope_mscale_all_dim·ln(rope_factor) + 1)`}
	ropeScaleAll = Key{Name: "rope_mscale_all_dim", Kind: Float, Positive: true, Doc: `"yarn": see rope_mscale`}
	ropeTruncate = Key{Name: "rope_truncate", Kind: Bool, Doc: `"yarn": round the pairs between which frequencies are blended; default true`}
	ropeShort    = Key{Name: "rope_short_factor", Kind: Floats, Positive: true, Doc: `"longrope": what the frequency of each pair of a head's elements is divided by, if the data set's context is at most the original one; required`}
	ropeLong     = Key{Name: "rope_long_factor", Kind: Floats, Positive: true, Doc: `"longrope": the same for longer contexts; required`}
)

// RopeScalingKeysOf lists the arguments that a rope_type takes besides it.
func RopeScalingKeysOf(kind string) []Key {
	switch kind {
	case ropeLinear:
		return []Key{ropeFactor}
	case RopeDynamic:
		return []Key{ropeFactor, ropeContext}
	case RopeYaRN:
		return []Key{ropeFactor, ropeContext, ropeFast, ropeSlow, ropeGain, ropeScale, ropeScaleAll, ropeTruncate}
	case RopeLong:
		return []Key{ropeFactor, ropeContext, ropeGain, ropeShort, ropeLong}
	case ropeLlama3:
		return []Key{ropeFactor, ropeLow, ropeHigh, ropeContext}
	}
	return nil
}

// CheckRopeScaling finds arguments that do not fit together.
func CheckRopeScaling(a Args, l *usererr.List) {
	kind := a.text(ropeType)
	needs := []Key{ropeFactor}
	switch kind {
	case ropeDefault:
		needs = nil
	case RopeLong:
		needs = []Key{ropeShort, ropeLong}
	}
	for _, k := range needs {
		if !a.has(k.Name) {
			l.Addf(k.Name, fmt.Sprintf("copy %s from rope_scaling of the model's config.json", strings.TrimPrefix(k.Name, "rope_")), "rope_type = %q needs it", kind)
		}
	}
	takes := RopeScalingKeysOf(kind)
	for _, k := range RopeScalingKeys[1:] {
		if a.has(k.Name) && !slices.ContainsFunc(takes, func(t Key) bool { return t.Name == k.Name }) {
			l.Addf(k.Name, `remove it, or set rope_type`, "rope_type = %q takes no %s", kind, k.Name)
		}
	}
	if low, high := a.float(ropeLow), a.float(ropeHigh); kind == ropeLlama3 && low >= high {
		l.Addf(ropeHigh.Name, "", "%v is not above rope_low_freq_factor = %v", high, low)
	}
	if kind == RopeYaRN && a.has(ropeScale.Name) != a.has(ropeScaleAll.Name) {
		l.Addf(ropeScale.Name, "give both, or neither", "rope_mscale and rope_mscale_all_dim belong together")
	}
}

// scaleRope sets the rotary positions of heads whose size is known, for samples with so many positions.
func (a *AttentionAttr) scaleRope(args Args, positions int) error {
	a.RopeTheta = args.float(ropeTheta)
	factor, context := args.float(ropeFactor), float64(args.int(ropeContext.Name, int(ropeContext.Default)))
	switch args.text(ropeType) {
	case ropeLinear:
		a.Scaling = RopeScaling{Factor: factor, High: 1, Gain: 1}
	case ropeLlama3:
		a.Scaling = RopeScaling{Factor: factor, Low: args.float(ropeLow), High: args.float(ropeHigh), Context: context, Gain: 1}
	case RopeYaRN:
		a.Scaling = a.yarn(args, factor, context)
	case RopeLong:
		return a.long(args, factor, context, float64(positions))
	case RopeDynamic: // "NTK-aware" scaling; transformers computes it for the longest sequence so far
		if n := float64(positions); n > context {
			a.RopeTheta *= math.Pow(factor*n/context-(factor-1), float64(a.Dim)/float64(a.Dim-2))
		}
	}
	return nil
}

// long divides the frequencies by factors for the length of the samples. Transformers takes that of the longest
// sequence so far.
func (a *AttentionAttr) long(args Args, factor, context, positions float64) error {
	for _, k := range []Key{ropeShort, ropeLong} {
		if n := len(get(args, k.Name, []float64(nil))); n != a.Dim/2 {
			return fmt.Errorf("%s has %d numbers; fix: give %d, one for each pair of a head's %d elements", k.Name, n, a.Dim/2, a.Dim)
		}
	}
	k, gain := ropeShort, 1.0
	if positions > context {
		k = ropeLong
	}
	if factor > 1 {
		gain = math.Sqrt(1 + math.Log(factor)/math.Log(context))
	}
	a.Scaling = RopeScaling{Factor: 1, High: 1, Gain: get(args, ropeGain.Name, gain), Divisors: args[k.Name].([]float64)}
	return nil
}

// yarn blends the frequencies of the pairs between those that turn beta_fast times and beta_slow times in
// the original context, linearly by pair.
func (a *AttentionAttr) yarn(args Args, factor, context float64) RopeScaling {
	pair := func(turns float64) float64 {
		return float64(a.Dim) * math.Log(context/(turns*2*math.Pi)) / (2 * math.Log(a.RopeTheta))
	}
	from, to := pair(args.float(ropeFast)), pair(args.float(ropeSlow))
	if args.bool(ropeTruncate.Name, true) {
		from, to = math.Floor(from), math.Ceil(to)
	}
	if from, to = max(from, 0), min(to, float64(a.Dim-1)); from == to {
		to += 0.001
	}
	mscale := func(scale float64) float64 {
		if factor <= 1 {
			return 1
		}
		return 0.1*scale*math.Log(factor) + 1
	}
	gain := mscale(1)
	switch {
	case args.has(ropeGain.Name):
		gain = args.float(ropeGain)
	case args.has(ropeScale.Name):
		gain = mscale(args.float(ropeScale)) / mscale(args.float(ropeScaleAll))
	}
	return RopeScaling{Factor: factor, Low: -to, High: -from, Pairs: 1, Gain: gain}
}

// Frequencies are the radians by which each pair of a head's elements turns from one position to the next,
// and what rotated elements are multiplied by.
func (a AttentionAttr) Frequencies() (f []float32, gain float64) {
	r := a.Scaling
	if r.Factor == 0 {
		r = RopeScaling{Factor: 1, High: 1, Gain: 1}
	}
	f = make([]float32, a.Dim/2)
	for j := range f {
		one := 1 / math.Pow(a.RopeTheta, float64(2*j)/float64(a.Dim))
		s := min(max((r.Context*one/(2*math.Pi)-r.Pairs*float64(j)-r.Low)/(r.High-r.Low), 0), 1)
		if one *= (1-s)/r.Factor + s; r.Divisors != nil {
			one /= r.Divisors[j]
		}
		f[j] = float32(one)
	}
	return f, r.Gain
}
