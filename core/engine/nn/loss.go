package nn

import (
	"fmt"
	"maps"
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// Keys of losses that are a program's own stand in Config.Args, beside those of named models. No key is one of both.

// losses are the definitions of losses that have keys.
func losses() (list []*op.Definition) {
	for _, d := range op.All() {
		if d.Loss && len(d.Keys) > 0 {
			list = append(list, d)
		}
	}
	return list
}

// lossKeys are the keys of all losses.
func lossKeys() (names []string) {
	for _, d := range losses() {
		for _, k := range d.Keys {
			names = append(names, k.Name)
		}
	}
	return names
}

// lossKey is the key of that name of some loss.
func lossKey(name string) (op.Key, bool) {
	for _, d := range losses() {
		for _, k := range d.Keys {
			if k.Name == name {
				return k, true
			}
		}
	}
	return op.Key{}, false
}

// lossArgs are the arguments that belong to losses, modelArgs the others.
func (c Config) lossArgs() op.Args { return c.argsOf(true) }

func (c Config) modelArgs() op.Args { return c.argsOf(false) }

func (c Config) argsOf(losses bool) op.Args {
	given := maps.Clone(c.Args)
	maps.DeleteFunc(given, func(name string, _ any) bool {
		_, ofLoss := lossKey(name)
		return ofLoss != losses
	})
	return given
}

// checkLossArgs checks the arguments of the loss.
func (c Config) checkLossArgs(l *usererr.List) {
	given, chosen := c.lossArgs(), op.Of(graph.Op(c.Loss))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if chosen == nil || !takes(chosen, name) {
			all := losses()
			other := all[slices.IndexFunc(all, func(d *op.Definition) bool { return takes(d, name) })].Name
			l.Addf(name, fmt.Sprintf("remove it, or set loss = %q", other), "applies only to the loss %s", other)
			delete(given, name)
		}
	}
	if chosen != nil {
		l.Under("", chosen.Problems(given))
	}
}

func takes(d *op.Definition, key string) bool {
	return slices.ContainsFunc(d.Keys, func(k op.Key) bool { return k.Name == key })
}
