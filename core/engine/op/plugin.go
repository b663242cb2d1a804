package op

import (
	"errors"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// PluginLayer is a layer that the process of a plugin computes.
const PluginLayer graph.Op = "plugin"

// Plugins are the layer plugins of a run.
type Plugins interface {
	// Describe returns what the layer at a site is for inputs of a shape (one sample). plugin is as in the
	// layer's table; the site's options are not checked yet.
	Describe(plugin string, s *Site, in tensor.Shape) (Described, error)
}

// Described is a layer of a plugin.
type Described struct {
	Out        tensor.Shape // of one sample
	Params     []OwnParam
	SaveOutput bool  // the gradient reads the output instead of the input
	FLOPs      int64 // forward, for one sample; 0: unknown
	Remote     Remote
}

// Remote computes a layer of a plugin. Its method is called by one goroutine at a time.
type Remote interface {
	// Compute makes a call with a batch of float32 or float64. Tensors are memory of the caller. Forward reads x
	// and the parameters, and writes y. Backward reads x, or y if the layer saves that, then dy and the
	// parameters, and writes dx and the gradients of the parameters. The error names plugin, layer and fix; later
	// calls fail as well.
	Compute(backward bool, d tensor.DType, batch int, in, out [][]byte) error
}

// PluginGone is an error of a plugin whose process has died or hangs.
type PluginGone struct{ Err error }

func (e *PluginGone) Error() string { return e.Err.Error() }

func (e *PluginGone) Unwrap() error { return e.Err }

var pluginKey = Key{Name: "plugin", Kind: String, Doc: "an entry of `[[layer_plugins]]`; default: the only one"}

func init() {
	d := Own{Name: PluginLayer, Doc: "computed by a plugin's process, with the options in `options`", Keys: []Key{pluginKey}}.Definition()
	for i := range d.Steps { // forward, and backward, which is taken for twice as much
		d.Steps[i].Stated = func(attr any, batch int) int64 { return int64(i+1) * int64(batch) * attr.(*OwnAttr).FLOPs }
	}
	d.Build = buildPlugin
	define(d)
}

func buildPlugin(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	if s.Plugins == nil {
		return s.ownFailed(PluginLayer, x, errors.New("layers of plugins need a run of trainctl, which starts the plugins"))
	}
	in := s.G.Shape(x).Clone()
	d, err := s.Plugins.Describe(get(a, pluginKey.Name, ""), s, in)
	if err = usererr.Under(s.Key+".options", err); usererr.Problems(err) != nil {
		return graph.None, err
	}
	if err != nil {
		return s.ownFailed(PluginLayer, x, err)
	}
	return s.addOwn(PluginLayer, &OwnAttr{Args: a, In: in, Out: d.Out, SaveOutput: d.SaveOutput, Remote: d.Remote, FLOPs: d.FLOPs}, d.Params, x)
}
