package op

import (
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
)

// Conv1D is a type of layer. Its operation is Conv2D, for which signals [C, L] are images of one row.
const Conv1D graph.Op = "conv1d"

func init() {
	define(Definition{
		Name: Conv1D, Doc: "1-D convolution of signals [channels, length]; keys that are pairs in conv2d are single numbers", Keys: convKeys,
		Check: func(a Args, l *usererr.List) {
			checkConv(a, l)
			for _, k := range convKeys {
				if p, ok := a[k.Name].(Pair); ok && len(p) == 2 && p[0] != p[1] {
					l.Addf(k.Name, "give one number", "signals have one dimension, got %v", p)
				}
			}
		},
		Build: func(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
			return buildConvOver(s, a, x, Conv1D, []int{1})
		},
	})
}
