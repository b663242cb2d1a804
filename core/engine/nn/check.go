package nn

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// Problems lists everything that is wrong with the table and can be said
// without knowing the data: types, names, missing, superfluous and illegal arguments.
func (c Config) Problems() usererr.List {
	var l usererr.List
	switch {
	case c.Name == "" && len(c.Layers) == 0:
		l.Addf("name", "one of "+strings.Join(Names(), ", ")+", or give layers", "the model has neither a name nor layers")
	case c.Name != "" && len(c.Layers) > 0:
		l.Addf("layers", "remove one of the two", "the model has both a name and layers")
	case c.Name != "" && !known(c.Name):
		l.Addf("name", "one of "+strings.Join(Names(), ", "), "unknown model %q", c.Name)
	}
	c.checkLoss(&l)
	c.checkInit(&l)
	switch {
	case known(c.Name):
		l.Under("", models[c.Name].problems(c.Name, c.modelArgs()))
	case c.Name == "": // the keys of a name that is not known may be right
		for _, key := range slices.Sorted(maps.Keys(c.modelArgs())) {
			l.Addf(key, "remove it, or give a name", "applies only to named models")
		}
	}
	if len(c.Hidden) > 0 && c.Name != "mlp" {
		l.Addf("hidden", "", "applies only to the model mlp")
	}
	switch {
	case c.Stem == "":
	case c.Stem != StemImageNet && c.Stem != StemCIFAR:
		l.Addf("stem", StemImageNet+" or "+StemCIFAR, "unknown stem %q", c.Stem)
	case !models[c.Name].stem:
		l.Addf("stem", "remove it", "applies only to the ResNets")
	}
	for i, w := range c.Hidden {
		atLeast(&l, fmt.Sprintf("hidden[%d]", i), w, 1)
	}
	checkLayers(&l, "layers", c.Layers)
	checkNames(&l, c.Layers)
	return l
}

// checkInit checks how the file of init is read.
func (c Config) checkInit(l *usererr.List) {
	for _, given := range []struct {
		key string
		set bool
	}{{"init_skip", c.InitSkip != nil}, {"init_rename", len(c.InitRename) > 0}, {"init_allow_missing", c.InitAllowMissing != nil}} {
		if given.set && c.Init == "" {
			l.Addf(given.key, "set init to a safetensors file, or remove it", "there is no file to start from")
		}
	}
	if f := c.InitFallback; f != "" && f != FallbackError && f != FallbackRandom {
		l.Addf("init_fallback", FallbackError+" or "+FallbackRandom, "unknown fallback %q", f)
	}
	for _, key := range slices.Sorted(maps.Keys(c.InitRename)) {
		if _, ok := c.InitRename[key].(string); !ok {
			l.Addf("init_rename", fmt.Sprintf("write it as %q = \"new name\"", key), "%q is not renamed to a string", key)
		}
	}
}

// What happens without the file of init.
const (
	FallbackError  = "error"
	FallbackRandom = "random"
)

// checkLoss checks the name of the loss and its settings.
func (c Config) checkLoss(l *usererr.List) {
	if losses := op.Losses(); c.Loss != "" && !slices.Contains(losses, c.Loss) {
		l.Addf("loss", strings.Join(losses, " or "), "unknown loss %q", c.Loss)
		return
	}
	of := func(loss graph.Op, key string, set bool) {
		if set && c.Loss != string(loss) && (c.Loss != "" || loss != op.CrossEntropy) {
			l.Addf(key, fmt.Sprintf("remove it, or set loss = %q", loss), "applies only to the loss %s", loss)
		}
	}
	of(op.CrossEntropy, "label_smoothing", c.LabelSmoothing != 0)
	of(op.CrossEntropy, "class_weights", c.ClassWeights != nil)
	of(op.Huber, "huber_delta", c.HuberDelta != nil)
	if !(c.LabelSmoothing >= 0 && c.LabelSmoothing <= 1) {
		l.Addf("label_smoothing", "0.1 is usual", "%v is outside 0 to 1", c.LabelSmoothing)
	}
	if d := or(c.HuberDelta, 1); !(d > 0) || math.IsInf(d, 1) {
		l.Addf("huber_delta", "1 is the default", "%v is not a finite number above 0", d)
	}
	c.checkLossArgs(l)
	var total float64
	for i, w := range c.ClassWeights {
		if total += w; !(w >= 0) || math.IsInf(w, 1) {
			l.Addf(fmt.Sprintf("class_weights[%d]", i), "1 is neutral, and 0 leaves a class out", "%v is not a finite number of 0 or more", w)
		}
	}
	if c.ClassWeights != nil && total == 0 {
		l.Addf("class_weights", "give a number for each class", "the weights add up to 0: no class would count")
	}
}

// problems checks a model's own keys.
func (m model) problems(name string, a op.Args) usererr.List {
	d := op.Definition{Name: graph.Op(name), Keys: m.keys, Check: m.check}
	return d.Problems(a)
}

func known(name string) bool { _, ok := models[name]; return ok }

func checkLayers(l *usererr.List, key string, layers []LayerConfig) {
	seen := map[string]int{}
	for i := range layers {
		c, at := &layers[i], fmt.Sprintf("%s[%d]", key, i)
		path := childPath("", c, i)
		if first, twice := seen[path]; twice {
			l.Addf(at+".name", "choose another name", "%q is already the name of %s[%d]", path, key, first)
		}
		seen[path] = i
		if strings.Contains(c.Name, ".") {
			l.Addf(at+".name", "nest a sequential instead", "the name %q contains a dot", c.Name)
		}
		l.Under(at, c.problems())
		checkLayers(l, at+".layers", c.Layers)
		checkLayers(l, at+".shortcut", c.Shortcut)
	}
}

// problems checks one layer without its children.
func (c *LayerConfig) problems() (l usererr.List) {
	d, box := op.Layer(c.Type), containers[c.Type]
	switch {
	case c.Type == "":
		l.Addf("type", "one of "+typeNames(), "the layer has no type")
		return l
	case d == nil && box.build == nil:
		l.Addf("type", "one of "+typeNames(), "unknown layer type %q", c.Type)
		return l
	case d == nil:
		d = &op.Definition{Name: graph.Op(c.Type), Keys: box.keys()}
	}
	l = d.Problems(c.arguments())
	c.checkArity(d, &l)
	slices.SortStableFunc(l, func(a, b usererr.Problem) int { return strings.Compare(a.Key, b.Key) })
	return l
}

// arguments are those of the operation, and the container's keys that are given.
func (c *LayerConfig) arguments() op.Args {
	a := maps.Clone(c.Args)
	if a == nil {
		a = op.Args{}
	}
	if c.Layers != nil {
		a["layers"] = nil
	}
	if c.Shortcut != nil {
		a["shortcut"] = nil
	}
	if c.Options != nil && c.Type != string(op.PluginLayer) {
		a["options"] = nil
	}
	if c.LayerDrop != nil {
		a["layerdrop"] = *c.LayerDrop
	}
	return a
}

// keys are those of a container as an operation's.
func (b container) keys() []op.Key {
	keys := []op.Key{{Name: "layers", Required: true}}
	for _, name := range b.takes {
		keys = append(keys, op.Key{Name: name, Kind: op.Float, Range: [2]float64{0, 1}})
	}
	return keys
}

func typeNames() string {
	names, _ := Types()
	return strings.Join(names, ", ")
}

func atLeast(l *usererr.List, key string, n, least int) {
	if n < least {
		l.Addf(key, "", "%d is less than %d", n, least)
	}
}
