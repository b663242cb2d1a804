package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is what -json writes.
type report struct {
	Date    string `json:"date"`
	Machine string `json:"machine"`

	Instructions instructions `json:"cpu,omitempty"` // of both sides; empty: the best that each has

	Torch   string     `json:"torch"`
	NoTorch string     `json:"torch_missing,omitempty"`
	Cases   []measured `json:"cases"`
}

// measured are all runs of a case.
type measured struct {
	Case     testCase            `json:"case"`
	Trainctl []result            `json:"trainctl"`
	Torch    map[string][]result `json:"torch"` // by variant
}

func (m *measured) add(variant string, r result) {
	if m.Torch == nil {
		m.Torch = map[string][]result{}
	}
	m.Torch[variant] = append(m.Torch[variant], r)
}

// best is PyTorch's fastest variant by the median.
func (m *measured) best() (variant string, runs []result) {
	for v, r := range m.Torch {
		if runs == nil || speed(r) > speed(runs) {
			variant, runs = v, r
		}
	}
	return variant, runs
}

func speed(runs []result) float64 {
	return median(runs, func(r *result) float64 { return r.SamplesPerSec })
}

func median(runs []result, of func(*result) float64) float64 {
	x := make([]float64, len(runs))
	for i := range runs {
		x[i] = of(&runs[i])
	}
	if slices.Sort(x); len(x) == 0 {
		return 0
	}
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// columns are what the table compares. A ratio says how many times better trainctl is.
var columns = []struct {
	name   string
	format string
	of     func(*result) float64
	more   bool // is better
}{
	{"samples/s", "%.0f", func(r *result) float64 { return r.SamplesPerSec }, true},
	{"first step s", "%.2f", func(r *result) float64 { return r.FirstStepS }, false},
	{"peak RSS MiB", "%.0f", func(r *result) float64 { return float64(r.PeakRSS) / (1 << 20) }, false},
	{"PSS MiB/rank", "%.0f", func(r *result) float64 { return float64(r.PSS) / (1 << 20) }, false},
}

func (r *report) print(w io.Writer) error {
	fmt.Fprintf(w, "%s%s, %s; medians of trainctl, PyTorch and their ratio", r.Machine, r.Instructions.note(), r.Date)
	if r.Torch == "" {
		fmt.Fprintf(w, "\nPyTorch was left out: %s", r.NoTorch)
	} else {
		fmt.Fprintf(w, "; torch %s", r.Torch)
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "case")
	for _, c := range columns {
		fmt.Fprint(tw, "\t", c.name)
	}
	fmt.Fprintln(tw, "\tbest variant")
	for i := range r.Cases {
		fmt.Fprintln(tw, r.Cases[i].row())
	}
	return tw.Flush()
}

func (m *measured) row() string {
	variant, torch := m.best()
	cells := []string{m.Case.String()}
	for _, c := range columns {
		ours, theirs := median(m.Trainctl, c.of), median(torch, c.of)
		cell := fmt.Sprintf(c.format, ours)
		if theirs > 0 && ours > 0 {
			ratio := theirs / ours
			if c.more {
				ratio = ours / theirs
			}
			cell += fmt.Sprintf(" / "+c.format+" = %.1fx", theirs, ratio)
		}
		cells = append(cells, cell)
	}
	return strings.Join(append(cells, variant), "\t")
}
