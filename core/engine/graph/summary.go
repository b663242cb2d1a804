package graph

import "github.com/trainctl/trainctl/core/tensor"

// LayerInfo is one operation of the forward pass, for people.
type LayerInfo struct {
	Path   string       // state-dict path
	Op     Op           //
	Output tensor.Shape // of one sample; nil for the loss
	Params int          // trained elements that belong to it
}

// Layers lists the forward pass in order, the loss last.
func (g *Graph) Layers() []LayerInfo {
	var layers []LayerInfo
	for _, n := range g.Forward() {
		info := LayerInfo{Path: n.Layer, Op: n.Op}
		if n.Out[0] != g.stats {
			info.Output = g.Shape(n.Out[0])
		}
		for _, id := range n.In {
			if id != None && g.Values[id].Kind == Parameter && g.params[g.Values[id].Index].RequiresGrad {
				info.Params += g.Shape(id).Elems()
			}
		}
		layers = append(layers, info)
	}
	return layers
}
