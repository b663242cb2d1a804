package op

import (
	"math"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// RopeScaling slows down rotary positions, for contexts longer than those of a model's first training. A
// frequency f, in radians per position, of which c = Context·f/2π periods fit that training's context, becomes
// f·((1−s)/Factor + s) with s = (c − Low)/(High − Low) between 0 and 1: "llama3" of transformers. Its "linear"
// has s = 0. The zero value changes nothing.
type RopeScaling struct{ Factor, Low, High, Context float64 }

// RopeScalingKeys are the arguments that describe a RopeScaling.
var RopeScalingKeys = []Key{ropeType, ropeFactor, ropeLow, ropeHigh, ropeContext}

var (
	ropeType    = Key{Name: "rope_type", Kind: String, Enum: []string{"default", "linear", "llama3"}, Noun: "scaling of rotary positions", Doc: `how rotary positions are scaled for long contexts, as in transformers: "default" (not), "linear" or "llama3"`}
	ropeFactor  = Key{Name: "rope_factor", Kind: Float, Positive: true, Default: 1, Doc: "factor by which rotary frequencies are divided; for every rope_type but the default"}
	ropeLow     = Key{Name: "rope_low_freq_factor", Kind: Float, Positive: true, Default: 1, Doc: `"llama3": frequencies with fewer periods in the original context are divided by rope_factor; default 1`}
	ropeHigh    = Key{Name: "rope_high_freq_factor", Kind: Float, Positive: true, Default: 4, Doc: `"llama3": frequencies with more periods in the original context stay; default 4`}
	ropeContext = Key{Name: "rope_original_max_position_embeddings", Min: 1, Default: 8192, Doc: `"llama3": context length of the original training; default 8192`}
)

// CheckRopeScaling finds arguments that do not fit together.
func CheckRopeScaling(a Args, l *usererr.List) {
	kind := a.text(ropeType)
	if kind != ropeType.Enum[0] && !a.has(ropeFactor.Name) {
		l.Addf(ropeFactor.Name, "copy factor from rope_scaling of the model's config.json", "rope_type = %q needs it", kind)
	}
	for _, k := range RopeScalingKeys[1:] {
		if a.has(k.Name) && (kind == "default" || kind == "linear" && k.Name != ropeFactor.Name) {
			l.Addf(k.Name, `remove it, or set rope_type`, "rope_type = %q takes no %s", kind, k.Name)
		}
	}
	if low, high := a.float(ropeLow), a.float(ropeHigh); kind == "llama3" && low >= high {
		l.Addf(ropeHigh.Name, "", "%v is not above rope_low_freq_factor = %v", high, low)
	}
}

func ropeScaling(a Args) RopeScaling {
	switch a.text(ropeType) {
	case "linear":
		return RopeScaling{Factor: a.float(ropeFactor), High: 1}
	case "llama3":
		return RopeScaling{a.float(ropeFactor), a.float(ropeLow), a.float(ropeHigh), float64(a.int(ropeContext.Name, int(ropeContext.Default)))}
	}
	return RopeScaling{}
}

// Whole is the same scaling with values for every term of the formula.
func (r RopeScaling) Whole() RopeScaling {
	if r.Factor == 0 {
		return RopeScaling{Factor: 1, High: 1}
	}
	return r
}

// Frequencies are the radians by which each pair of a head's elements turns from one position to the next.
func (a AttentionAttr) Frequencies() []float32 {
	r, out := a.Scaling.Whole(), make([]float32, a.Dim/2)
	for j := range out {
		f := 1 / math.Pow(a.RopeTheta, float64(2*j)/float64(a.Dim))
		s := min(max((r.Context*f/(2*math.Pi)-r.Low)/(r.High-r.Low), 0), 1)
		out[j] = float32(f * ((1-s)/r.Factor + s))
	}
	return out
}
