package importer

import (
	"fmt"
	"slices"
	"strings"
)

// Layers are named after their weights, and those without weights after their types, in the container that the layers around
// them have in common. So containers come in one piece, and the names of weights survive.

// roles are what files call the tensors of a layer, as the last part of their names.
var roles = []string{"weight", "bias", "gamma", "beta", "scale", "running_mean", "running_var", "kernel"}

// pathOf is the path of a layer from the name of one of its tensors; "" if the name has none.
func pathOf(name string) string {
	for _, role := range roles {
		if path, ok := strings.CutSuffix(name, "."+role); ok {
			return path
		}
		if path, ok := strings.CutSuffix(name, "_"+role); ok { // in_proj_weight
			return path
		}
	}
	return ""
}

// usable reports whether a path can be that of a layer.
func usable(path string) bool {
	if path == "" || len(path) > 200 {
		return false
	}
	for part := range strings.SplitSeq(path, ".") {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r == '/' || r == ':' || r == 0x7f }) {
			return false
		}
	}
	return true
}

// wish is the path that a layer would like, from its tensors or else from its node.
func (t *translator) wish(l *layer) string {
	table := l.typ == "class_token" || l.typ == "position_embedding"
	for _, p := range l.params {
		path := pathOf(p.title)
		if path == "" && table {
			path = p.title
		}
		if usable(path) {
			return path
		}
	}
	if path := t.m.Nodes[max(l.node, 0)].Module(); len(l.params) > 0 && usable(path) {
		return path
	}
	return ""
}

// naming gives layers their paths.
type naming struct {
	taken      map[string]bool // paths of layers
	containers map[string]bool // the containers of these
	closed     map[string]bool // containers that other layers have followed
	open       []string        // the containers of the layer before
	numbers    map[string]int  // by the path before it, the last number that fresh has tried
}

func newNaming() *naming {
	return &naming{taken: map[string]bool{}, containers: map[string]bool{}, closed: map[string]bool{}, numbers: map[string]int{}}
}

// name gives all layers paths, in their order.
func (t *translator) name() {
	n := newNaming()
	for _, l := range t.layers {
		if path := t.wish(l); path != "" {
			l.path = n.claim(path)
		}
	}
	before, behind := "", t.behind()
	for i, l := range t.layers {
		if l.path == "" {
			l.path = n.fresh(common(before, behind[i]), short(l.typ))
		}
		before = container(l.path)
	}
	t.unhide(n)
}

// unhide renames layers that a later one could not read by name, because a container around that one has a layer of their name.
func (t *translator) unhide(n *naming) {
	all := t.paths()
	for _, l := range t.layers {
		for _, r := range l.in {
			if old := r.layer.name(); old != "" && !t.follows(l) && lookUp(all, container(l.path), old) != old {
				delete(all, old)
				in, last := container(old), old[strings.LastIndexByte(old, '.')+1:]
				r.path = n.fresh(in, last+"_")
				all[r.path] = r.layer
			}
		}
	}
}

// name is a layer's path; "" of the model's input.
func (l *layer) name() string {
	if l == nil {
		return ""
	}
	return l.path
}

// container is the path around a layer.
func container(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }

// behind are for each layer the container of the first one with a name from it on; "" without one.
func (t *translator) behind() []string {
	list, next := make([]string, len(t.layers)), ""
	for i, l := range slices.Backward(t.layers) {
		if l.path != "" {
			next = container(l.path)
		}
		list[i] = next
	}
	return list
}

// common is the container that two containers lie in.
func common(a, b string) string {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	n := 0
	for n < min(len(as), len(bs)) && as[n] == bs[n] {
		n++
	}
	return strings.Join(as[:n], ".")
}

// short is a layer's type without its dimensions: conv, maxpool.
func short(typ string) string { return strings.TrimSuffix(strings.TrimSuffix(typ, "2d"), "1d") }

// claim enters a path. If a layer has it already, its container cannot be continued, or a part of it would hide the model's input,
// the layer gets one outside all containers.
func (n *naming) claim(path string) string {
	parts := strings.Split(path, ".")
	for i := range parts {
		if p := strings.Join(parts[:i+1], "."); n.taken[p] || n.closed[p] || n.containers[path] || slices.Contains(parts, modelInput) {
			path = n.fresh("", strings.ReplaceAll(path, ".", "_"))
			parts = []string{path}
			break
		}
	}
	around := parts[:len(parts)-1]
	for i := range n.open {
		if i >= len(around) || around[i] != n.open[i] {
			for j := i; j < len(n.open); j++ {
				n.closed[strings.Join(n.open[:j+1], ".")] = true
			}
			break
		}
	}
	n.open = around
	return n.take(path)
}

// take enters a path that is free.
func (n *naming) take(path string) string {
	n.taken[path] = true
	for p := container(path); p != "" && !n.containers[p]; p = container(p) {
		n.containers[p] = true
	}
	return path
}

// fresh is a path in a container that no layer has.
func (n *naming) fresh(in, base string) string {
	if in != "" {
		base = in + "." + base
	}
	for {
		n.numbers[base]++ // those before it are taken, and stay so
		path := fmt.Sprintf("%s%d", base, n.numbers[base])
		if !n.taken[path] && !n.closed[path] && !n.containers[path] {
			return n.take(path)
		}
	}
}

// lookUp is the path that inputs give from a container: names are searched in it and then in those around it.
func lookUp(all map[string]*layer, parent, name string) string {
	for {
		path := name
		if parent != "" {
			path = parent + "." + name
		}
		if all[path] != nil || parent == "" {
			return path
		}
		parent = container(parent)
	}
}
