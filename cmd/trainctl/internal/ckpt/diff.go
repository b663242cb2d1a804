package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

func diffCommand(base *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "List the tensors in which two checkpoints differ, and by how much",
		Long: `Compare two checkpoints or safetensors files: every tensor, and the state of the
run in their manifests. For a run, its newest checkpoint is compared. Names may
differ by the prefix "module.". The exit code is 0 if they are equal, else 1.`,
		Example: `  trainctl ckpt diff mnist-ddp/1 mnist-ddp/2 --model
  trainctl ckpt diff a.safetensors b.safetensors --rtol 1e-5 --json`,
		Args: cli.Exactly("A", "B"),
	}
	f := cmd.Flags()
	model := f.Bool("model", false, "compare only the model, not optimizer and manifest")
	atol := f.Float64("atol", 0, "treat values as equal that differ by at most `X` …")
	rtol := f.Float64("rtol", 0, "… and `X` times the value of B")
	show := cli.JSONFlag(cmd, "one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !(*atol >= 0) || !(*rtol >= 0) {
			return cli.Usagef("--atol and --rtol must not be negative")
		}
		d := comparison{A: args[0], B: args[1]}
		if err := d.compare(cmd.Context(), *base, *model, checkpoint.Tolerance{Abs: *atol, Rel: *rtol}); err != nil {
			return err
		}
		if err := show(d, d.text); err != nil {
			return err
		}
		if !d.Equal {
			return cli.Reported(errors.New("they differ"))
		}
		return nil
	}
	return cmd
}

// comparison is what ckpt diff prints.
type comparison struct {
	A           string       `json:"a"`
	B           string       `json:"b"`
	Equal       bool         `json:"equal"`
	Tensors     int          `json:"tensors"` // compared
	Notes       []string     `json:"notes,omitempty"`
	Differences []difference `json:"differences"`
}

// difference has the numbers of a tensor whose values differ. JSON has no
// infinities and NaN, so they are left out.
type difference struct {
	checkpoint.Difference
	Abs *float64 `json:"max_abs,omitempty"`
	Rel *float64 `json:"max_rel,omitempty"`
}

func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

func (d *comparison) compare(ctx context.Context, base string, model bool, tol checkpoint.Tolerance) error {
	a, err := loadCheckpoint(ctx, base, &d.A)
	if err != nil {
		return err
	}
	b, err := loadCheckpoint(ctx, base, &d.B)
	if err != nil {
		return err
	}
	if a.bare != b.bare && !model {
		d.Notes = append(d.Notes, "one of them is a file of weights: only the models are compared")
	}
	c, err := checkpoint.Compare(a.Snapshot, b.Snapshot, !model && !a.bare && !b.bare, tol)
	if err != nil {
		return unusable(err)
	}
	d.Tensors, d.Notes = c.Tensors, append(d.Notes, c.Notes...)
	d.Differences = []difference{}
	for _, x := range c.Differences {
		out := difference{Difference: x}
		if x.Elements > 0 {
			out.Abs, out.Rel = finite(x.MaxAbs), finite(x.MaxRel)
		}
		d.Differences = append(d.Differences, out)
	}
	if a.bare && b.bare && !model && !maps.Equal(a.metadata, b.metadata) {
		d.Differences = append(d.Differences, difference{Difference: checkpoint.Difference{
			Part: "metadata", Name: "__metadata__", A: fmt.Sprint(a.metadata), B: fmt.Sprint(b.metadata)}})
	}
	d.Equal = len(d.Differences) == 0
	return nil
}

// loaded is a checkpoint, or a bare file of weights.
type loaded struct {
	*checkpoint.Snapshot
	bare     bool
	metadata map[string]string // of a bare file
}

// loadCheckpoint reads the checkpoint for a path or run, and stores its path in the argument.
func loadCheckpoint(ctx context.Context, base string, path *string) (_ loaded, err error) {
	if *path, err = findCheckpoints(base, *path); err != nil {
		return loaded{}, err
	}
	fsys := checkpoint.OsFS()
	snap, report, err := checkpoint.Load(ctx, fsys, *path)
	if errors.Is(err, checkpoint.ErrNone) {
		return loaded{}, unusable(err)
	}
	if err != nil {
		return loaded{}, judged(*path, err)
	}
	*path = report.Path
	l := loaded{Snapshot: snap, bare: !cli.IsDir(fsys, report.Path)}
	if l.bare {
		info, err := checkpoint.Inspect(fsys, report.Path)
		if err != nil {
			return loaded{}, judged(*path, err)
		}
		l.metadata = info.Metadata
	}
	return l, nil
}

func (d *comparison) text(w io.Writer) error {
	fmt.Fprintf(w, "A  %s\nB  %s\n", d.A, d.B)
	for _, n := range d.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	if d.Equal {
		_, err := fmt.Fprintf(w, "equal: %d tensors\n", d.Tensors)
		return err
	}
	for _, x := range d.Differences {
		fmt.Fprintf(w, "%s %s: %s\n", x.Part, x.Name, x.line())
	}
	_, err := fmt.Fprintf(w, "different: %d, of %d tensors compared\n", len(d.Differences), d.Tensors)
	return err
}

func (d difference) line() string {
	switch {
	case d.A == "":
		return "only in B, " + d.B
	case d.B == "":
		return "only in A, " + d.A
	case d.Of == 0:
		return fmt.Sprintf("%s in A, %s in B", d.A, d.B)
	}
	types := ""
	if d.A != d.B {
		types = fmt.Sprintf("%s in A, %s in B, ", d.A, d.B)
	}
	if d.Elements == 0 {
		return types + "equal values"
	}
	return fmt.Sprintf("%s%d of %d values differ, at most by %.6g (%.6g and %.6g at %d), relative %.3g",
		types, d.Elements, d.Of, d.MaxAbs, d.ValueA, d.ValueB, d.At, d.MaxRel)
}
