package nn

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/diag"
)

// Models are the names that [model] name may have.
var Models = []string{"convnet", "mlp"}

// layerArgs says which arguments a layer type takes; those of need
// have to be given.
var layerArgs = map[string]struct{ need, may []string }{
	"conv2d":             {[]string{"out_channels", "kernel_size"}, []string{"in_channels", "stride", "padding", "dilation", "groups", "bias"}},
	"linear":             {[]string{"out_features"}, []string{"in_features", "bias"}},
	"batchnorm2d":        {nil, []string{"num_features", "eps", "momentum", "affine"}},
	"layernorm":          {nil, []string{"normalized_shape", "eps", "elementwise_affine", "bias"}},
	"relu":               {},
	"gelu":               {nil, []string{"approximate"}},
	"sigmoid":            {},
	"tanh":               {},
	"maxpool2d":          {[]string{"kernel_size"}, []string{"stride", "padding", "dilation", "ceil_mode"}},
	"avgpool2d":          {[]string{"kernel_size"}, []string{"stride", "padding", "ceil_mode", "count_include_pad"}},
	"adaptive_avgpool2d": {[]string{"output_size"}, nil},
	"flatten":            {},
	"dropout":            {nil, []string{"p"}},
	"embedding":          {[]string{"num_embeddings", "embedding_dim"}, nil},
	"sequential":         {[]string{"layers"}, nil},
	"residual":           {[]string{"layers"}, []string{"shortcut"}},
}

// Problems checks the table by itself; shapes are checked when the graph is
// built, which knows the data.
func (c Config) Problems() diag.List {
	var l diag.List
	if c.Name != "" && !slices.Contains(Models, c.Name) {
		l.Addf("name", "use "+list(Models)+", or describe it in [[model.layers]]", "unknown model %q", c.Name)
	}
	if len(c.Hidden) > 0 && c.Name != "mlp" {
		l.Addf("hidden", `only model "mlp" has hidden widths`, "model %q does not use it", c.Name)
	}
	for i, n := range c.Hidden {
		if n < 1 {
			l.Addf(fmt.Sprintf("hidden[%d]", i), "give 1 or more", "%d is not a width", n)
		}
	}
	if c.Loss != "" && c.Loss != "cross_entropy" && c.Loss != "mse" {
		l.Addf("loss", `use "cross_entropy" or "mse"`, "unknown loss %q", c.Loss)
	}
	layersProblems(&l, "layers", c.Layers)
	return l
}

// layersProblems checks siblings: each by itself, and their names together.
func layersProblems(l *diag.List, path string, layers []LayerConfig) {
	seen := map[string]int{}
	for i, layer := range layers {
		at := fmt.Sprintf("%s[%d]", path, i)
		l.Under(at, layer.problems())
		name := layer.Name
		if name == "" {
			name = strconv.Itoa(i)
		}
		if first, ok := seen[name]; ok {
			l.Addf(at+".name", "names give the state-dict keys and must differ among siblings", "%q is taken by %s[%d]", name, path, first)
			continue
		}
		seen[name] = i
	}
}

func (c LayerConfig) problems() diag.List {
	var l diag.List
	args, ok := layerArgs[c.Type]
	switch {
	case c.Type == "":
		l.Addf("type", `as type = "linear"`, "missing: a layer needs a type")
	case !ok:
		l.Addf("type", "use one of "+list(layerTypes()), "unknown layer type %q", c.Type)
	default:
		c.argProblems(&l, args.need, args.may)
		c.rangeProblems(&l)
	}
	layersProblems(&l, "layers", c.Layers)
	layersProblems(&l, "shortcut", c.Shortcut)
	return l
}

// argProblems compares what is given with what the type takes.
func (c LayerConfig) argProblems(l *diag.List, need, may []string) {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("toml")
		if key == "type" || key == "name" {
			continue
		}
		switch given := !v.Field(i).IsZero(); {
		case !given && slices.Contains(need, key):
			l.Addf(key, "add "+key, "missing: %s needs it", c.Type)
		case given && !slices.Contains(need, key) && !slices.Contains(may, key):
			l.Addf(key, takes(c.Type, need, may), "%s does not take it", c.Type)
		}
	}
}

func takes(kind string, need, may []string) string {
	all := slices.Concat(need, may)
	if len(all) == 0 {
		return "remove it; " + kind + " takes no arguments"
	}
	return "remove it; " + kind + " takes " + strings.Join(all, ", ")
}

// rangeProblems checks the numbers whose limits do not depend on shapes.
func (c LayerConfig) rangeProblems(l *diag.List) {
	for _, n := range []struct {
		key string
		v   *int
	}{
		{"in_channels", c.InChannels}, {"out_channels", c.OutChannels}, {"groups", c.Groups},
		{"in_features", c.InFeatures}, {"out_features", c.OutFeatures}, {"num_features", c.NumFeatures},
		{"num_embeddings", c.NumEmbeddings}, {"embedding_dim", c.EmbeddingDim},
	} {
		if n.v != nil && *n.v < 1 {
			l.Addf(n.key, "give 1 or more", "%d is too small", *n.v)
		}
	}
	for _, p := range []struct {
		key string
		v   IntPair
		min int
	}{
		{"kernel_size", c.KernelSize, 1}, {"stride", c.Stride, 1}, {"padding", c.Padding, 0},
		{"dilation", c.Dilation, 1}, {"output_size", c.OutputSize, 1},
	} {
		if len(p.v) > 0 && slices.Min(p.v) < p.min {
			l.Addf(p.key, fmt.Sprintf("give %d or more", p.min), "%d is too small", slices.Min(p.v))
		}
	}
	if c.P != nil && !(*c.P >= 0 && *c.P <= 1) {
		l.Addf("p", "0.5 is the default", "%v is not a probability", *c.P)
	}
	if c.Approximate != nil && *c.Approximate != "none" && *c.Approximate != "tanh" {
		l.Addf("approximate", `use "none" or "tanh"`, "unknown approximation %q", *c.Approximate)
	}
}

func layerTypes() []string {
	var t []string
	for k := range layerArgs {
		t = append(t, k)
	}
	slices.Sort(t)
	return t
}

func list(s []string) string {
	q := make([]string, len(s))
	for i := range s {
		q[i] = strconv.Quote(s[i])
	}
	return strings.Join(q, ", ")
}
