package nn

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/diag"
)

// Problems lists everything that is wrong with the table and can be said
// without knowing the data: types, names, missing, superfluous and illegal arguments.
func (c Config) Problems() diag.List {
	var l diag.List
	switch {
	case c.Name == "" && len(c.Layers) == 0:
		l.Addf("name", "one of "+strings.Join(Names(), ", ")+", or give layers", "the model has neither a name nor layers")
	case c.Name != "" && len(c.Layers) > 0:
		l.Addf("layers", "drop one of the two", "the model has both a name and layers")
	case c.Name != "" && !known(c.Name):
		l.Addf("name", "one of "+strings.Join(Names(), ", "), "there is no model %q", c.Name)
	}
	if c.Loss != "" && c.Loss != "cross_entropy" && c.Loss != "mse" {
		l.Addf("loss", "cross_entropy or mse", "there is no loss %q", c.Loss)
	}
	if len(c.Hidden) > 0 && c.Name != "mlp" {
		l.Addf("hidden", "", "only the model mlp has hidden widths")
	}
	switch {
	case c.Stem == "":
	case c.Stem != StemImageNet && c.Stem != StemCIFAR:
		l.Addf("stem", StemImageNet+" or "+StemCIFAR, "there is no stem %q", c.Stem)
	case !models[c.Name].stem:
		l.Addf("stem", "leave it out", "only the ResNets have a stem to choose")
	}
	for i, w := range c.Hidden {
		atLeast(&l, fmt.Sprintf("hidden[%d]", i), w, 1)
	}
	checkLayers(&l, "layers", c.Layers)
	return l
}

func known(name string) bool { _, ok := models[name]; return ok }

func checkLayers(l *diag.List, key string, layers []LayerConfig) {
	seen := map[string]int{}
	for i := range layers {
		c, at := &layers[i], fmt.Sprintf("%s[%d]", key, i)
		path := childPath("", c, i)
		if first, twice := seen[path]; twice {
			l.Addf(at+".name", "give it another name", "%q is already the name of %s[%d]", path, key, first)
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
func (c *LayerConfig) problems() (l diag.List) {
	t, known := types[c.Type]
	if !known {
		help := "one of " + strings.Join(typeNames(), ", ")
		if c.Type == "" {
			l.Addf("type", help, "the layer has no type")
		} else {
			l.Addf("type", help, "there is no layer type %q", c.Type)
		}
		return l
	}
	given := c.given()
	for _, key := range t.needs {
		if !slices.Contains(given, key) {
			l.Addf(key, "", "%s needs %s", c.Type, key)
		}
	}
	for _, key := range given {
		if !slices.Contains(t.needs, key) && !slices.Contains(t.takes, key) {
			l.Addf(key, takes(t), "%s takes no %s", c.Type, key)
		}
	}
	c.values(&l)
	return l
}

func takes(t layerType) string {
	all := append(slices.Clone(t.needs), t.takes...)
	if len(all) == 0 {
		return "it takes no arguments"
	}
	return "it takes " + strings.Join(all, ", ")
}

func typeNames() []string {
	var names []string
	for name := range types {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// given lists the arguments that are there, by key.
func (c *LayerConfig) given() (keys []string) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("toml")
		if key == "type" || key == "name" || v.Field(i).IsZero() {
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

// values checks the range of every argument that is given.
func (c *LayerConfig) values(l *diag.List) {
	for key, n := range map[string]*int{
		"in_channels": c.InChannels, "out_channels": c.OutChannels, "groups": c.Groups, "in_features": c.InFeatures,
		"out_features": c.OutFeatures, "num_features": c.NumFeatures, "num_embeddings": c.NumEmbeddings, "embedding_dim": c.EmbeddingDim,
	} {
		if n != nil {
			atLeast(l, key, *n, 1)
		}
	}
	for key, p := range map[string]IntPair{"kernel_size": c.KernelSize, "stride": c.Stride, "dilation": c.Dilation, "output_size": c.OutputSize} {
		checkPair(l, key, p, 1)
	}
	checkPair(l, "padding", c.Padding, 0)
	for i, n := range c.NormShape {
		atLeast(l, fmt.Sprintf("normalized_shape[%d]", i), n, 1)
	}
	if c.OutChannels != nil && c.Groups != nil && *c.Groups > 0 && *c.OutChannels%*c.Groups != 0 {
		l.Addf("groups", "", "%d output channels do not divide into %d groups", *c.OutChannels, *c.Groups)
	}
	within(l, "p", c.P, 0, 1)
	within(l, "layerdrop", c.LayerDrop, 0, 1)
	within(l, "momentum", c.Momentum, 0, 1)
	if c.Eps != nil && !(*c.Eps > 0) {
		l.Addf("eps", "", "%v is not positive", *c.Eps)
	}
	if c.Approximate != nil && *c.Approximate != "none" && *c.Approximate != "tanh" {
		l.Addf("approximate", "none or tanh", "there is no approximation %q", *c.Approximate)
	}
	slices.SortFunc(*l, func(a, b diag.Problem) int { return strings.Compare(a.Key, b.Key) })
}

func atLeast(l *diag.List, key string, n, least int) {
	if n < least {
		l.Addf(key, "", "%d is less than %d", n, least)
	}
}

func checkPair(l *diag.List, key string, p IntPair, least int) {
	if len(p) != 0 && len(p) != 2 {
		l.Addf(key, "one number, or [height, width]", "%d numbers given", len(p))
		return
	}
	for _, n := range p {
		atLeast(l, key, n, least)
	}
}

func within(l *diag.List, key string, v *float64, lo, hi float64) {
	if v != nil && !(*v >= lo && *v <= hi) {
		l.Addf(key, "", "%v is outside %v to %v", *v, lo, hi)
	}
}
