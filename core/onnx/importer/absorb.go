package importer

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
)

// complete sets the arguments of a layer that say which parameters it has.
func complete(c *call) {
	if c.args == nil {
		c.args = op.Args{}
	}
	d := op.Layer(c.typ)
	has := func(key string) bool {
		return slices.ContainsFunc(d.Keys, func(k op.Key) bool { return k.Name == key })
	}
	set := func(key string, on bool) {
		if delete(c.args, key); !on && has(key) {
			c.args[key] = false
		}
	}
	scaled := c.param("weight") != nil
	set("elementwise_affine", scaled)
	set("affine", scaled)
	if set("bias", c.param("bias") != nil); !scaled && has("elementwise_affine") {
		delete(c.args, "bias")
	}
}

// whole are the parameters of a layer, with a bias of zeros for one that has no scale without.
func (c *call) whole() []param {
	scale := c.param("weight")
	if _, off := c.args["affine"]; off || scale == nil || c.param("bias") != nil || !slices.ContainsFunc(op.Layer(c.typ).Keys, func(k op.Key) bool { return k.Name == "affine" }) {
		return c.params
	}
	return append(slices.Clone(c.params), param{"bias", filledWith(elems(scale.Shape), 0)})
}

// absorbed makes a constant that is added or multiplied a parameter of the layer before it, or of one that adds a vector to each
// position; nil if no layer has such a parameter.
func (t *translator) absorbed(typ string, in []*value) *value {
	for i := range in {
		c, x := in[1-i], in[i]
		if !c.floats() || x.konst != nil || len(x.shape) == 0 || elems(c.shape) == 1 && elems(x.shape[1:]) != 1 {
			continue
		}
		if s, err := broadcast(x.shape, c.shape); err != nil || !slices.Equal(s, x.shape) {
			continue
		}
		base, index := resolve(x)
		name := map[string]string{"Add": "bias", "Mul": "weight"}[typ]
		if base.call != nil && op.Layer(base.call.typ) != nil && usedOnce(x) && base.call.param(name) == nil && base.call.param("bias") == nil {
			if y := t.parameter(name, c, x, base, index); y != nil {
				return y
			}
		}
		if typ == "Add" && len(x.shape) == 3 && elems(c.shape) == x.shape[1]*x.shape[2] && slices.Equal(lastOf(c.shape, 2), x.shape[1:]) {
			return t.newCall(x.shape, "position_embedding", nil, []*value{x}, param{"weight", c.konst.shaped(x.shape[1:]...)})
		}
	}
	return nil
}

// parameter gives the layer that computes base, of which x are the elements, a parameter.
func (t *translator) parameter(name string, c, x, base *value, index []int32) *value {
	var shape []int
	switch keys := base.call.args; {
	case base.call.typ == "linear" && name == "bias" && wholeRows(x, base, index):
		shape = base.shape[len(base.shape)-1:]
	case keys["normalized_shape"] != nil:
		shape = keys["normalized_shape"].([]int)
		if len(shape) > 1 && x != base || !wholeRows(x, base, index) || name == "bias" && base.call.typ == "rmsnorm" {
			return nil
		}
	case index == nil && slices.Equal(x.shape, base.shape) && len(x.shape) > 2 && (keys["num_groups"] != nil || keys["kernel_size"] != nil && keys["out_channels"] != nil && name == "bias"):
		shape = x.shape[1:2]
		if rest := lastOf(c.shape, len(x.shape)-1); len(rest) != len(x.shape)-1 || elems(rest[1:]) != 1 {
			return nil
		}
	default:
		return nil
	}
	perRow := base.call.args["num_groups"] == nil && base.call.args["out_channels"] == nil
	if elems(c.shape) != elems(shape) || perRow && !slices.Equal(lastOf(c.shape, len(shape)), shape) {
		return nil
	}
	more := []param{{name, c.konst.shaped(shape...)}}
	if scale := base.call.param("weight"); name == "bias" && scale == nil {
		more = append(more, param{"weight", filledWith(elems(shape), 1).shaped(shape...)})
	}
	y := &value{node: t.at, shape: base.shape, call: base.call.with(t.at, more...)}
	if x == base {
		return y
	}
	return &value{node: t.at, shape: x.shape, view: &view{of: y, index: index}}
}

// usedOnce reports whether nothing else reads a value, nor what it views.
func usedOnce(v *value) bool {
	for v.uses <= 1 {
		if v.view == nil {
			return true
		}
		v = v.view.of
	}
	return false
}

// lastOf are the last n dimensions of a shape, fewer if it has fewer.
func lastOf(shape []int, n int) []int { return shape[max(0, len(shape)-n):] }
