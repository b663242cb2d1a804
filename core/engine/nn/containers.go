package nn

import (
	"fmt"
	"maps"
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// container is a type of layer that is made of layers.
type container struct {
	doc   string
	takes []string // keys beside layers, which it needs
	build func(b *builder, path, key string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error)
}

// containers are filled by init, because they build layers again.
var containers map[string]container

func init() {
	containers = map[string]container{
		"sequential": {doc: "runs its layers in order", build: buildSequential},
		"residual":   {doc: "adds the output of its layers and of its shortcut", takes: []string{"shortcut", "layerdrop"}, build: buildResidual},
	}
}

// Types lists the types of layers with what each of them is, sorted.
func Types() (names []string, docs map[string]string) {
	docs = map[string]string{}
	for _, d := range op.Layers() {
		docs[string(d.Name)] = d.Doc
	}
	for name, c := range containers {
		docs[name] = c.doc
	}
	return slices.Sorted(maps.Keys(docs)), docs
}

// CheckType returns an error if there is a type of layers of that name already.
func CheckType(name string) error {
	if _, ok := containers[name]; ok || op.Layer(name) != nil {
		return fmt.Errorf("there is a layer type %s already", name)
	}
	return nil
}

func buildSequential(b *builder, path, key string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	return b.chain(path, b.under(key, "layers"), c.Layers, x)
}

// buildResidual adds the shortcut, or the input itself, to what the main path
// gives. The shortcut's layers are children of the block when they have names,
// and of its child "shortcut" otherwise.
func buildResidual(b *builder, path, key string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	y, err := b.droppable(path, key, c, x)
	if err != nil {
		return graph.None, err
	}
	short, err := b.chain(shortcutPath(path, c), b.under(key, "shortcut"), c.Shortcut, x)
	if err != nil {
		return graph.None, err
	}
	return op.Apply(b.g, op.Add, path, nil, y, short)
}

// shortcutPath is the parent of a shortcut's layers.
func shortcutPath(path string, c *LayerConfig) string {
	for i := range c.Shortcut {
		if c.Shortcut[i].Name == "" {
			return join(path, "shortcut")
		}
	}
	return path
}

// droppable is the main path of a residual, which layerdrop may leave out.
func (b *builder) droppable(path, key string, c *LayerConfig, x graph.ValueID) (y graph.ValueID, err error) {
	drop := or(c.LayerDrop, 0)
	if drop > 0 {
		if x, err = op.EnterBranch(b.g, path, x, drop); err != nil {
			return graph.None, err
		}
	}
	if y, err = b.chain(path, b.under(key, "layers"), c.Layers, x); err != nil || drop == 0 {
		return y, err
	}
	return op.LeaveBranch(b.g, path, y)
}

func (b *builder) under(key, table string) string {
	if b.named {
		return key
	}
	return key + "." + table
}
