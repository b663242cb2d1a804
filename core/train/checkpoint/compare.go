package checkpoint

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/tensor"
)

// Tolerance defines which values are equal: |a − b| ≤ Abs + Rel·|b|, as in
// torch.allclose. The zero value accepts only equal values.
type Tolerance struct{ Abs, Rel float64 }

// Difference is a tensor or a manifest entry in which two checkpoints differ.
type Difference struct {
	Part string `json:"part"` // "model", "optimizer", "compression" or "manifest"
	Name string `json:"name"`
	A    string `json:"a,omitempty"` // type and shape, or value; "" where it is missing
	B    string `json:"b,omitempty"`

	// Of tensors with the same shape, whose values differ:
	Elements int     `json:"elements,omitempty"` // how many do
	Of       int     `json:"of,omitempty"`       // out of how many
	At       int     `json:"at,omitempty"`       // index of the largest difference, rows first
	MaxAbs   float64 `json:"-"`                  // |a − b|; infinite where one is not a number
	MaxRel   float64 `json:"-"`                  // |a − b| / max(|a|, |b|)
	ValueA   float64 `json:"-"`                  // at At
	ValueB   float64 `json:"-"`
}

// Comparison lists the differences between two checkpoints.
type Comparison struct {
	Tensors     int      // tensors compared, in either checkpoint
	Notes       []string // about names that differ only by "module."
	Differences []Difference
}

// Compare compares the models of two snapshots, and with whole also their other tensors
// and the manifest entries about the run, except times and versions. Names of tensors may differ by "module.".
func Compare(a, b *Snapshot, whole bool, tol Tolerance) (*Comparison, error) {
	c := &Comparison{}
	if err := c.tensors("model", a.Model, b.Model, tol); err != nil {
		return nil, err
	}
	if !whole {
		return c, nil
	}
	if err := c.tensors("optimizer", a.Optimizer, b.Optimizer, tol); err != nil {
		return nil, err
	}
	if err := c.tensors("compression", a.Compression, b.Compression, tol); err != nil {
		return nil, err
	}
	c.manifests(a.manifest(), b.manifest())
	return c, nil
}

func (c *Comparison) tensors(part string, a, b []tensor.Named, tol Tolerance) error {
	m, bad := match(namesOf(a), namesOf(b))
	if bad.Half != "" {
		return fmt.Errorf("%s: only some of the names have the module. prefix: %s", part, bad.Half)
	}
	renamed := 0
	other := make(map[string]tensor.Tensor, len(b))
	for _, t := range b {
		other[t.Name] = t.Tensor
	}
	for _, t := range a {
		c.Tensors++
		from, ok := m.From[t.Name]
		if !ok {
			c.add(Difference{Part: part, Name: t.Name, A: t.Spec().String()})
			continue
		}
		if from != t.Name {
			renamed++
		}
		if d, differ := compare(t.Tensor, other[from], tol); differ {
			d.Part, d.Name = part, t.Name
			c.add(d)
		}
		delete(other, from)
	}
	if renamed > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%s: %d names differ only by \"module.\"", part, renamed))
	}
	for _, t := range b {
		if _, left := other[t.Name]; left {
			c.Tensors++
			c.add(Difference{Part: part, Name: t.Name, B: t.Spec().String()})
		}
	}
	return nil
}

func (c *Comparison) add(d Difference) { c.Differences = append(c.Differences, d) }

// compare compares two tensors: first their bytes, which is fast, then value by value. Equal values of different types are a difference.
func compare(a, b tensor.Tensor, tol Tolerance) (Difference, bool) {
	d := Difference{A: a.Spec().String(), B: b.Spec().String(), Of: a.Shape.Elems()}
	if !a.Shape.Equal(b.Shape) {
		d.Of = 0
		return d, true
	}
	if a.DType == b.DType && bytes.Equal(a.Data, b.Data) {
		return d, false
	}
	at, bt := values(a), values(b)
	for i := range d.Of {
		d.value(i, at(i), bt(i), tol)
	}
	return d, d.Elements > 0 || a.DType != b.DType
}

func (d *Difference) value(i int, a, b float64, tol Tolerance) {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return
	}
	abs := math.Abs(a - b)
	if abs <= tol.Abs+tol.Rel*math.Abs(b) {
		return
	}
	rel := abs / max(math.Abs(a), math.Abs(b))
	if math.IsNaN(abs) || math.IsNaN(rel) {
		abs, rel = math.Inf(1), math.Inf(1)
	}
	if d.Elements == 0 || abs > d.MaxAbs {
		d.MaxAbs, d.At, d.ValueA, d.ValueB = abs, i, a, b
	}
	d.MaxRel = max(d.MaxRel, rel)
	d.Elements++
}

// manifests compares the state from which a run continues.
func (c *Comparison) manifests(a, b Manifest) {
	rows := func(m Manifest) [][2]string {
		return [][2]string{
			{"step", fmt.Sprint(m.Step)}, {"epoch", fmt.Sprint(m.Epoch)}, {"applied_steps", fmt.Sprint(m.Applied)},
			{"world_size", fmt.Sprint(m.WorldSize)}, {"precision", m.Precision}, {"seed", fmt.Sprint(m.Seed)},
			{"sampler", fmt.Sprintf("%+v", m.Sampler)}, {"dataset", fmt.Sprintf("%+v", m.Dataset)},
			{"scaler", fmt.Sprint(m.Scaler)}, {"watched", fmt.Sprint(m.Watched)}, {"metrics", fmt.Sprint(m.Metrics)}, {"config_sha256", m.ConfigSHA256},
		}
	}
	other := rows(b)
	for i, r := range rows(a) {
		if r != other[i] {
			c.add(Difference{Part: "manifest", Name: r[0], A: r[1], B: other[i][1]})
		}
	}
}

// Rename adds "module." to the front of all tensor names, or removes every "module."
// component. It is an error if two names would become equal, or if only some have the
// prefix.
func Rename(tensors []tensor.Named, wrap bool) ([]tensor.Named, error) {
	names := namesOf(tensors)
	if half := halfWrapped(nil, names); half != "" {
		return nil, fmt.Errorf("only some of the names have the module. prefix: %s", half)
	}
	out, seen := slices.Clone(tensors), map[string]bool{}
	for i, name := range names {
		name = unwrap(name)
		if wrap {
			name = wrapper + "." + name
		}
		if seen[name] {
			return nil, fmt.Errorf("two tensors would be called %q", name)
		}
		seen[name] = true
		out[i].Name = name
	}
	return out, nil
}
