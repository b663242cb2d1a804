package optim

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Group is a table [[optimizer.groups]]: parameters with settings of their own, as one of
// PyTorch's param_groups. A parameter belongs to the first group that matches it.
type Group struct {
	Match       []string `toml:"match"`        // names of parameters, or of layers that contain them; * stands for any characters
	LRScale     *float64 `toml:"lr_scale"`     // of the learning rate; default 1
	WeightDecay *float64 `toml:"weight_decay"` // in the place of the optimizer's and of decay
	Freeze      bool     `toml:"freeze"`       // not trained
}

// Group is the index of the group of a parameter of one name or, if it is tied, of several;
// −1 for none.
func (c Config) Group(names ...string) int {
	return slices.IndexFunc(c.Groups, func(g Group) bool {
		return slices.ContainsFunc(g.Match, func(pattern string) bool { return MatchAny(pattern, names) })
	})
}

// MatchAny reports whether a pattern is one of the names of a tensor, or of a layer around one.
// A * in it stands for any number of any characters, dots too.
func MatchAny(pattern string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		for end, r := range name + "." {
			if r == '.' && match(pattern, name[:end]) {
				return true
			}
		}
		return false
	})
}

func match(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, head)
	if !star || !ok {
		return ok && name == ""
	}
	for i := range len(name) + 1 {
		if match(rest, name[i:]) {
			return true
		}
	}
	return false
}

// scale is the group's factor of the learning rate.
func (g Group) scale() float64 {
	if g.LRScale == nil {
		return 1
	}
	return *g.LRScale
}

// of is the table as one parameter has it, and the factor of its learning rate.
func (c Config) of(p Param) (own Config, lrScale float64) {
	if c.Decay == DecayMatrices && len(p.Value.Shape) < 2 {
		c.WeightDecay = 0
	}
	i := c.Group(append([]string{p.Name}, p.Aliases...)...)
	if i < 0 {
		return c, 1
	}
	g := c.Groups[i]
	if g.WeightDecay != nil {
		c.WeightDecay = *g.WeightDecay
	}
	return c, g.scale()
}

// groupProblems checks each group by itself.
func (c Config) groupProblems(l *usererr.List) {
	for i, g := range c.Groups {
		at := fmt.Sprintf("groups[%d]", i)
		if len(g.Match) == 0 {
			l.Addf(at+".match", `such as match = ["*.bias", "layer1"]`, "the group matches no parameters")
		}
		if v := g.scale(); !(v >= 0) || math.IsInf(v, 1) {
			l.Addf(at+".lr_scale", "1 keeps the learning rate", "%v is not a finite number ≥ 0", v)
		}
		if g.WeightDecay != nil {
			nonNegative(l, at+".weight_decay", *g.WeightDecay)
		}
		switch {
		case g.Freeze && (g.LRScale != nil || g.WeightDecay != nil):
			l.Addf(at+".freeze", "remove lr_scale and weight_decay, or freeze", "frozen parameters have neither a learning rate nor weight decay")
		case !g.Freeze && g.LRScale == nil && g.WeightDecay == nil:
			l.Addf(at, "set lr_scale, weight_decay or freeze", "the group changes nothing")
		}
	}
}
