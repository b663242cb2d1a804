package nn

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/op"
)

// modelInput is what inputs call the samples, where no layer has that name.
const modelInput = "input"

// lookUp finds the layer that an input names, as seen from a layer of the list at
// parent: one of the same list, or else of the nearest list around it that has
// one. Dots lead into containers: "encoder.conv1".
func lookUp(parent, name string, exists func(path string) bool) (path string, found bool) {
	for {
		if path = join(parent, name); exists(path) {
			return path, true
		}
		if parent == "" {
			return "", false
		}
		parent = parentOf(parent)
	}
}

// parentOf is the path without its last name.
func parentOf(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }

// names follows the inputs of a model's layers, in the order in which they run.
type names struct {
	l    *usererr.List
	all  map[string]named // by path
	done map[string]bool  // paths of layers that have run
	read map[string]bool  // paths of layers whose output a name reads
	idle []string         // paths of layers that only a name can read
}

// named is a layer in the model's table.
type named struct {
	key   string
	fence string // the innermost residual with layerdrop whose main path it lies in
	parts bool   // its outputs have numbers
}

// checkNames finds inputs that name no earlier layer, and layers that nothing reads.
func checkNames(l *usererr.List, layers []LayerConfig) {
	n := &names{l: l, all: map[string]named{}, done: map[string]bool{}, read: map[string]bool{}}
	n.collect("", "layers", "", layers)
	n.list("", "layers", layers)
	for _, path := range n.idle {
		if !n.read[path] {
			l.Addf(n.all[path].key, "name it in the inputs of a later layer, or remove it", "nothing reads the output of layer %q", path)
		}
	}
}

// collect enters all layers.
func (n *names) collect(parent, key, fence string, layers []LayerConfig) {
	for i := range layers {
		c, at := &layers[i], fmt.Sprintf("%s[%d]", key, i)
		path := childPath(parent, c, i)
		n.all[path] = named{at, fence, partsOf(c)}
		inner := fence
		if or(c.LayerDrop, 0) > 0 {
			inner = path
		}
		n.collect(path, at+".layers", inner, c.Layers)
		n.collect(shortcutPath(path, c), at+".shortcut", fence, c.Shortcut)
	}
}

func partsOf(c *LayerConfig) bool {
	d := op.Layer(c.Type)
	return d != nil && d.Parts
}

// list checks the layers of one list.
func (n *names) list(parent, key string, layers []LayerConfig) {
	for i := range layers {
		c, at := &layers[i], fmt.Sprintf("%s[%d]", key, i)
		path := childPath(parent, c, i)
		for j, name := range c.Inputs {
			n.input(parent, path, fmt.Sprintf("%s.inputs[%d]", at, j), name)
		}
		n.list(path, at+".layers", c.Layers)
		n.list(shortcutPath(path, c), at+".shortcut", c.Shortcut)
		n.done[path] = true
		switch last := i == len(layers)-1; {
		case n.all[path].parts && (last || len(layers[i+1].Inputs) == 0):
			n.l.Addf(at, fmt.Sprintf("give the next layer inputs, such as [%q]", join(childPath("", c, i), "0")), "layer %q has several outputs, and what follows it does not say which one it reads", path)
		case !last && len(layers[i+1].Inputs) > 0:
			n.idle = append(n.idle, path)
		}
	}
}

// input checks one name that the layer at path reads.
func (n *names) input(parent, path, key, name string) {
	found, ok := lookUp(parent, name, n.exists)
	target := n.all[n.layerOf(found)]
	switch {
	case !ok && name == modelInput:
		if n.all[path].fence != "" {
			n.fenced(key, name)
		}
	case !ok:
		n.l.Addf(key, "one of "+n.inSight(parent), "no layer is named %q", name)
	case n.layerOf(found) == path:
		n.l.Addf(key, "name a layer before it", "layer %q reads its own output", path)
	case strings.HasPrefix(path, found+"."):
		n.l.Addf(key, "name a layer before it", "layer %q is a part of %q, whose output it reads", path, found)
	case !n.done[n.layerOf(found)]:
		n.l.Addf(key, "move that layer in front of this one, or name another", "layer %q reads %q, which comes later (%s): a layer can read only those before it", path, found, target.key)
	case target.parts && n.layerOf(found) == found:
		n.l.Addf(key, fmt.Sprintf("name one of them, such as %q", name+".0"), "layer %q has several outputs", found)
	case target.fence != n.all[path].fence:
		n.fenced(key, name)
	default:
		n.read[n.layerOf(found)] = true
	}
}

func (n *names) fenced(key, name string) {
	n.l.Addf(key, "connect them through the residual, or set layerdrop to 0", "layers that layerdrop may leave out cannot read %q by name, nor be read from outside", name)
}

// exists reports whether a path is a layer's, or one of a layer's numbered outputs.
func (n *names) exists(path string) bool {
	_, ok := n.all[n.layerOf(path)]
	return ok
}

// layerOf is the layer that a path belongs to: itself, or what has it as a part.
func (n *names) layerOf(path string) string {
	if _, ok := n.all[path]; ok {
		return path
	}
	if dot := strings.LastIndexByte(path, '.'); dot >= 0 && n.all[path[:dot]].parts {
		if i, err := strconv.Atoi(path[dot+1:]); err == nil && i >= 0 {
			return path[:dot]
		}
	}
	return path
}

// inSight lists the layers that have run in the list at parent.
func (n *names) inSight(parent string) string {
	list := []string{modelInput}
	for _, path := range slices.Sorted(maps.Keys(n.done)) {
		if rest, ok := strings.CutPrefix(path, join(parent, "")); ok && !strings.Contains(rest, ".") {
			list = append(list, rest)
		}
	}
	return strings.Join(list, ", ")
}

// checkArity compares the number of inputs with what the layer reads.
func (c *LayerConfig) checkArity(d *op.Definition, l *usererr.List) {
	least, most := d.Arity()
	switch given := len(c.Inputs); {
	case given == 0 && least > 1:
		l.Addf("inputs", `such as inputs = ["a", "b"]`, "%s needs the names of the layers that it reads", d.Name)
	case given != 0 && given < least:
		l.Addf("inputs", "", "%s reads at least %d layers, %d given", d.Name, least, given)
	case given > most:
		l.Addf("inputs", "join them first, with concat, add or multiply", "%s reads %d, %d given", d.Name, most, given)
	}
}
