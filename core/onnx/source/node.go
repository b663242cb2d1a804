package source

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/trainctl/trainctl/core/onnx/pb"
)

// Node is one operation. Absent inputs and outputs are "".
type Node struct {
	Name    string // as the file calls it, or its number
	Type    string // the operator, with its domain unless that is ONNX's
	In, Out []string

	attrs map[string]*pb.AttributeProto
}

func newNode(p *pb.NodeProto, number int) Node {
	n := Node{Name: printable(p.GetName()), Type: printable(p.GetOpType()), In: p.GetInput(), Out: p.GetOutput(), attrs: map[string]*pb.AttributeProto{}}
	if d := p.GetDomain(); d != "" && d != "ai.onnx" {
		n.Type = printable(d) + "." + n.Type
	}
	if n.Name == "" {
		n.Name = fmt.Sprintf("#%d", number)
	}
	for _, a := range p.GetAttribute() {
		n.attrs[a.GetName()] = a
	}
	return n
}

// printable replaces what would break a line of text or control a terminal: names of a file appear in messages and in comments of
// configurations.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}

// Int32 is the nearest number of 32 bits. Files write "to the end" as the largest of 64 bits, which sums would overflow.
func Int32(v int64) int { return int(min(max(v, math.MinInt32), math.MaxInt32)) }

// Has reports whether an attribute is given.
func (n *Node) Has(name string) bool { return n.attrs[name] != nil }

// Int is an attribute, clamped by [Int32]; d if it is not given.
func (n *Node) Int(name string, d int) int {
	if a := n.attrs[name]; a != nil && a.I != nil {
		return Int32(a.GetI())
	}
	return d
}

// Ints is a list, clamped by [Int32]; nil if it is not given.
func (n *Node) Ints(name string) []int {
	a := n.attrs[name]
	if a == nil {
		return nil
	}
	out := make([]int, len(a.GetInts()))
	for i, v := range a.GetInts() {
		out[i] = Int32(v)
	}
	return out
}

// Float is an attribute, d if it is not given.
func (n *Node) Float(name string, d float64) float64 {
	if a := n.attrs[name]; a != nil && a.F != nil {
		return Decimal(a.GetF())
	}
	return d
}

// Text is an attribute, d if it is not given.
func (n *Node) Text(name, d string) string {
	if a := n.attrs[name]; a != nil && a.S != nil {
		return string(a.GetS())
	}
	return d
}

// Tensor is an attribute, or what a Constant says by one of its other attributes; nil if none is given.
func (n *Node) Tensor() (*Tensor, error) {
	for name, a := range n.attrs {
		switch name {
		case "value":
			if a.GetT() == nil {
				return nil, nil
			}
			if err := checkTensor(a.GetT()); err != nil {
				return nil, err
			}
			return inline(a.GetT())
		case "value_float":
			return &Tensor{Shape: []int{}, Floats: []float32{a.GetF()}}, nil
		case "value_int":
			return &Tensor{Shape: []int{}, Ints: []int64{a.GetI()}}, nil
		case "value_floats":
			return &Tensor{Shape: []int{len(a.GetFloats())}, Floats: append([]float32{}, a.GetFloats()...)}, nil
		case "value_ints":
			return &Tensor{Shape: []int{len(a.GetInts())}, Ints: append([]int64{}, a.GetInts()...)}, nil
		}
	}
	return nil, nil
}

// Decimal is the float64 of the shortest decimal number that is x in float32: 0.1, not 0.10000000149.
func Decimal(x float32) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', -1, 32), 64)
	if err != nil {
		return float64(x)
	}
	return v
}

// Module is the path of the module that a node belongs to, "" if its name does not say. PyTorch's TorchScript
// exporter writes /layer1/layer1.0/conv1/Conv for layer1.0.conv1.
func (n *Node) Module() string {
	parts := strings.Split(n.Name, "/")
	if len(parts) < 3 || parts[0] != "" {
		return ""
	}
	var path []string
	last := ""
	for _, p := range parts[1 : len(parts)-1] {
		name := p
		if rest, ok := strings.CutPrefix(p, last+"."); ok && last != "" {
			name = rest
		}
		path, last = append(path, name), p
	}
	return strings.Join(path, ".")
}
