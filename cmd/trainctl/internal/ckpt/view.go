package ckpt

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/trainctl/trainctl/core/base/bytesize"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// view is a checkpoint as the ckpt commands print it.
type view struct {
	Path      string              `json:"path"`
	Step      int                 `json:"step"`
	Epoch     int                 `json:"epoch"`
	Bytes     int64               `json:"bytes"`
	Created   string              `json:"created,omitempty"` // RFC 3339
	CreatedBy string              `json:"created_by,omitempty"`
	Latest    bool                `json:"latest"`
	Best      bool                `json:"best"`
	Metrics   map[string]float64  `json:"metrics,omitempty"` // those that are finite
	WorldSize int                 `json:"world_size,omitempty"`
	Precision string              `json:"precision,omitempty"`
	Dataset   string              `json:"dataset,omitempty"`
	Classes   []string            `json:"classes,omitempty"`  // their names by index
	Plugins   []checkpoint.Plugin `json:"plugins,omitempty"`  // that trained it
	Elements  int                 `json:"elements,omitempty"` // of the model, buffers included; inspect only
	Problem   string              `json:"problem,omitempty"`  // why it cannot be read
	Model     []tensorView        `json:"model,omitempty"`    // inspect only
	Optimizer []tensorView        `json:"optimizer,omitempty"`
}

// tensorView is one tensor of a file.
type tensorView struct {
	Name  string       `json:"name"`
	DType string       `json:"dtype"`
	Shape tensor.Shape `json:"shape"`
	Bytes int64        `json:"bytes"`
}

// viewOf describes a checkpoint; siblings, which may be nil, determine which is the best.
func viewOf(info checkpoint.Info, siblings []checkpoint.Info) view {
	m := info.Manifest
	v := view{
		Path: info.Path, Step: m.Step, Epoch: m.Epoch, Bytes: info.Bytes, CreatedBy: m.CreatedBy, Latest: info.Latest,
		WorldSize: m.WorldSize, Precision: m.Precision, Dataset: m.Dataset.Plugin, Classes: m.Dataset.Classes, Plugins: m.Plugins,
		Model: tensorViews(info.Model), Optimizer: tensorViews(info.Optimizer),
	}
	if !m.CreatedAt.IsZero() {
		v.Created = m.CreatedAt.UTC().Format(time.RFC3339)
	}
	if m.Dataset.Source != "" {
		v.Dataset += " (" + m.Dataset.Source + ")"
	}
	switch {
	case info.Err != nil:
		v.Problem = info.Err.Error()
	case m.NonFinite != "":
		v.Problem = (&checkpoint.NonFiniteError{Tensor: m.NonFinite}).Error()
	}
	if len(siblings) > 0 && siblings[0].Manifest.Best != nil && info.Err == nil {
		v.Best = siblings[0].Manifest.Best.Step == m.Step
	}
	for name, n := range m.Metrics {
		if f := float64(n); !math.IsNaN(f) && !math.IsInf(f, 0) {
			if v.Metrics == nil {
				v.Metrics = map[string]float64{}
			}
			v.Metrics[name] = f
		}
	}
	for _, e := range info.Model {
		v.Elements += e.Shape.Elems()
	}
	return v
}

// someOf returns the first names of a list; --json prints all.
func someOf(names []string) string {
	const most = 10
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

func tensorViews(list []safetensors.Entry) (out []tensorView) {
	for _, e := range list {
		out = append(out, tensorView{e.Name, e.DType.String(), append(tensor.Shape{}, e.Shape...), e.End - e.Begin})
	}
	return out
}

func checkpointTable(w io.Writer, list []view) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "STEP\tEPOCH\tSIZE\tMETRICS\tPATH")
	for _, c := range list {
		path := c.Path
		for _, m := range []struct {
			on   bool
			name string
		}{{c.Latest, "latest"}, {c.Best, "best"}, {c.Problem != "", "unusable: " + c.Problem}} {
			if m.on {
				path += " (" + m.name + ")"
			}
		}
		fmt.Fprintf(tw, "%d\t%d\t%s\t%s\t%s\n", c.Step, c.Epoch, bytesize.Text(c.Bytes), metrics(c.Metrics), path)
	}
	return tw.Flush()
}

func metrics(m map[string]float64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s=%.4g", k, m[k]))
	}
	return strings.Join(parts, " ")
}

func (v view) text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "path\t%s\n", v.Path)
	fmt.Fprintf(tw, "size\t%s\n", bytesize.Text(v.Bytes))
	if v.Created != "" {
		fmt.Fprintf(tw, "step\t%d, epoch %d\n", v.Step, v.Epoch)
		fmt.Fprintf(tw, "created\t%s by %s, world size %d\n", v.Created, v.CreatedBy, v.WorldSize)
		fmt.Fprintf(tw, "precision\t%s\n", v.Precision)
		fmt.Fprintf(tw, "dataset\t%s\n", v.Dataset)
		if n := len(v.Classes); n > 0 {
			fmt.Fprintf(tw, "classes\t%d: %s\n", n, someOf(v.Classes))
		}
		for _, p := range v.Plugins {
			fmt.Fprintf(tw, "%s plugin\t%s\n", p.Type, strings.TrimSpace(fmt.Sprintf("%s %s", p.Name, p.Version)))
			fmt.Fprintf(tw, "\t%s sha256 %s\n", p.Path, cmp.Or(p.SHA256, "unknown"))
		}
		fmt.Fprintf(tw, "metrics\t%s\n", metrics(v.Metrics))
	}
	fmt.Fprintf(tw, "model\ttensors %d, elements %d\n", len(v.Model), v.Elements)
	for _, part := range []struct {
		name string
		list []tensorView
	}{{"MODEL", v.Model}, {"OPTIMIZER", v.Optimizer}} {
		if len(part.list) == 0 {
			continue
		}
		fmt.Fprintf(tw, "\n%s\tTYPE\tSHAPE\tSIZE\n", part.name)
		for _, t := range part.list {
			fmt.Fprintf(tw, "%s\t%s\t%v\t%s\n", t.Name, t.DType, t.Shape, bytesize.Text(t.Bytes))
		}
	}
	return tw.Flush()
}
