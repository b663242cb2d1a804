package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Attention and its gradients, which come from one pass. A step reads queries,
// keys and values, or one tensor that has them side by side. It writes its
// output, and of each head and query log Σexp of its scores, from which the
// gradient recomputes the softmax.
const Attention, AttentionGrad graph.Op = "attention", "attention_grad"

// AttentionAttr holds the arguments of an attention.
type AttentionAttr struct {
	Heads, KVHeads, Dim int
	Causal              bool
	RopeTheta           float64 // 0: no rotary positions
	Scaling             RopeScaling
	P                   float64 // dropout of probabilities
	Layer               uint64  // which random stream, as for dropout
}

func init() {
	define(Definition{
		Name: Attention, Doc: "softmax(q·kᵀ/√d)·v of several heads (Vaswani et al., 2017). Reads queries, keys and values [positions, heads·d], or one layer that has the three side by side; linear layers before and behind it are layers of their own",
		Autocast: Lower, Apex: Lower, Random: true,
		Keys: append([]Key{
			{Name: "heads", Min: 1, Required: true, Doc: "number of query heads; required"},
			{Name: "kv_heads", Min: 1, Doc: "number of key and value heads, each for heads/kv_heads neighbouring query heads (Ainslie et al., 2023); default heads"},
			{Name: "causal", Kind: Bool, Doc: "position i attends only to positions 0 to i; default false"},
			ropeTheta,
			attentionDropout,
		}, RopeScalingKeys...),
		Check: checkAttention, Join: buildAttention, Inputs: [2]int{1, 3}, Outputs: attentionOutputs, Gradient: attentionGradient, Positions: attentionKept,
		Steps: []Step{
			{Op: Attention, Cost: func(in, out []tensor.Spec) int64 { return 4 * elems(out, 0) * keysOf(in) }},
			{Op: AttentionGrad, Cost: func(in, _ []tensor.Spec) int64 { return 10 * elems(in, len(in)-1) * keysOf(in[:len(in)-3]) }},
		},
	})
}

var (
	ropeTheta        = Key{Name: "rope_theta", Kind: Float, Positive: true, Doc: "base of rotary positions (Su et al., 2021) in pairs (j, j + d/2), such as 10000; default: none"}
	attentionDropout = Key{Name: "dropout", Kind: Float, Range: [2]float64{0, 1}, Doc: "probability with which an attention weight is dropped in training; default 0"}
)

func checkAttention(a Args, l *usererr.List) {
	if heads, kv := a.int("heads", 1), a.int("kv_heads", 1); kv > 0 && heads%kv != 0 {
		l.Addf("kv_heads", "", "%d heads are not divisible by %d kv_heads", heads, kv)
	}
	if CheckRopeScaling(a, l); a.text(ropeType) != ropeType.Enum[0] && !a.has(ropeTheta.Name) {
		l.Addf(ropeType.Name, "set rope_theta, or remove it", "there are no rotary positions to scale")
	}
}

func buildAttention(s *Site, a Args, in []graph.ValueID) (graph.ValueID, error) {
	attr := AttentionAttr{Heads: a.int("heads", 1), Causal: a.bool("causal", false), P: a.float(attentionDropout), Layer: s.randomLayer()}
	attr.KVHeads = a.int("kv_heads", attr.Heads)
	heads := attr.Heads
	if len(in) == 1 {
		heads += 2 * attr.KVHeads
	}
	width := s.dim(in[0], -1)
	if attr.Dim = width / heads; width%heads != 0 {
		return graph.None, fmt.Errorf("%s (%s): the width %d is not divisible by %d heads", s.Path, Attention, width, heads)
	}
	if err := attr.scaleRope(a, s.dim(in[len(in)/2], 0)); err != nil {
		return graph.None, fmt.Errorf("%s (%s): %w", s.Path, Attention, err)
	}
	return s.apply(Attention, attr, in...)
}

// attentionOutputs takes queries [T, heads·d], keys and values [S, kvHeads·d], or [T, (heads + 2·kvHeads)·d].
func attentionOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	a := attr.(AttentionAttr)
	if len(in) == 2 {
		return nil, fmt.Errorf("needs one input with queries, keys and values side by side, or three")
	}
	if err := floating(in); err != nil {
		return nil, err
	}
	if a.RopeTheta != 0 && a.Dim%2 != 0 {
		return nil, fmt.Errorf("rotary positions need an even head size, got %d", a.Dim)
	}
	for i, x := range in {
		want := a.KVHeads * a.Dim
		if i == 0 {
			want = a.Heads * a.Dim
			if len(in) == 1 {
				want += 2 * a.KVHeads * a.Dim
			}
		}
		if s := x.Spec.Shape; len(s) != 2 || s[1] != want {
			return nil, fmt.Errorf("needs [positions, %d] for %s of %d heads of %d, got %v", want, [...]string{"queries", "keys", "values"}[i], want/a.Dim, a.Dim, s)
		}
	}
	if n := len(in) - 1; in[n].Spec.Shape[0] != in[(n+1)/2].Spec.Shape[0] {
		return nil, fmt.Errorf("there are %d keys and %d values", in[1].Spec.Shape[0], in[2].Spec.Shape[0])
	}
	queries := in[0].Spec.Shape[0]
	return []graph.Value{output(queries, a.Heads*a.Dim), wide(output(a.Heads, queries))}, nil
}

// attentionGradient gives the gradients of all inputs, wanted or not.
func attentionGradient(b *graph.Backward, n *graph.Node) {
	var grads []graph.ValueID
	for _, x := range n.In {
		grads = append(grads, b.Fresh(x))
	}
	in := append(append([]graph.ValueID{}, n.In...), n.Out[0], n.Out[1], b.In(n))
	b.Emit(n, AttentionGrad, in, grads)
	for i, x := range n.In {
		if b.Needs(x) {
			b.Deliver(n, x, grads[i])
		}
	}
}

// keysOf is the number of keys of an attention.
func keysOf(in []tensor.Spec) int64 { return int64(in[len(in)/2].Shape[1]) }
