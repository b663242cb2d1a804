package forecast

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/base/bytesize"
	"github.com/trainctl/trainctl/core/base/decimal"
)

// Text writes the report for people.
func (r *Report) Text(w io.Writer) error {
	p := &printer{w: w}
	r.overview(p)
	r.layers(p)
	r.buckets(p)
	r.memory(p)
	for _, s := range r.Warnings {
		p.line("\nwarning: %s", s)
	}
	return p.err
}

func (r *Report) overview(p *printer) {
	t := p.table()
	t.row("run", r.Name, parens(r.Config))
	t.row("ranks", ranks(r.World), parens(r.World.Host))
	t.row("device", r.World.Device, parens(r.World.DeviceReason), countIf(r.World.Threads, "thread per rank", "threads per rank"))
	t.row("batch", batch(r.Batch, r.World.Ranks))
	t.row("steps", steps(r.Steps))
	t.row("dataset", r.Dataset.Plugin, parens(r.Dataset.Source), samples(r.Dataset))
	t.row("sample", r.Dataset.Input, r.Dataset.Target)
	for i, line := range r.Init {
		t.row([]string{"weights", ""}[min(i, 1)], strings.TrimSpace(line))
	}
	t.row("optimizer", r.Optimizer)
	t.row("schedule", r.Schedule)
	for i, kv := range r.Precision {
		t.row([]string{"precision", ""}[min(i, 1)], kv[0]+" = "+kv[1])
	}
	for i, pl := range r.Plugins {
		t.row([]string{"plugins", ""}[min(i, 1)], pl.Kind+" "+pl.Name, pl.Version, cmp.Or(pl.Path, "built in"))
	}
	t.flush()
	if r.Dataset.Notice != "" {
		p.line("\nnote: %s", r.Dataset.Notice)
	}
}

func (r *Report) layers(p *printer) {
	if len(r.Layers) == 0 {
		return
	}
	p.line("")
	t := p.table(3, 4)
	t.cells("layer", "type", "output", "parameters", "MFLOP/sample")
	for _, l := range r.Layers {
		t.cells(l.Name, l.reads(), l.Output, decimal.Group(int64(l.Parameters)), megaflops(l.FLOPs))
	}
	t.cells("total", "", "", decimal.Group(int64(r.Totals.Parameters)), "")
	t.flush()
	if r.Totals.Buffers > 0 {
		p.line("%s buffer elements", decimal.Group(int64(r.Totals.Buffers)))
	}
	if r.Totals.FLOPs > 0 {
		p.line("%.2f GFLOP per step and rank", float64(r.Totals.FLOPs)/1e9)
	}
}

// reads is the layer's type, with what it reads where that is not the layer before.
func (l *Layer) reads() string {
	if len(l.Inputs) == 0 {
		return l.Type
	}
	return l.Type + " (" + strings.Join(l.Inputs, ", ") + ")"
}

func (r *Report) buckets(p *printer) {
	if len(r.Buckets) == 0 {
		return
	}
	p.line("")
	t := p.table(0, 1, 2)
	t.cells("bucket", "gradients", "size", "ready first", "ready last")
	for _, b := range r.Buckets {
		t.cells(strconv.Itoa(b.Index), strconv.Itoa(b.Parameters), bytesize.Text(b.Bytes), b.First, b.Last)
	}
	t.flush()
	if r.Caps.Auto {
		p.line("bucket_cap_mb = auto: the first closes at %g MiB, the others at %g MiB in this forecast; a run measures before it decides", r.Caps.First, r.Caps.Rest)
	}
	if t := r.Traffic; t.SyncEvery > 1 {
		p.line("%s of weights and buffers every %d steps, %s per step on average; each rank sends %s per step in a ring, or reads %s through shared memory",
			bytesize.Text(t.AverageBytes), t.SyncEvery, bytesize.Text(t.WireBytes), bytesize.Text(t.RingBytes), bytesize.Text(t.SharedBytes))
		return
	}
	compressed := ""
	if t := r.Traffic; t.WireBytes != t.GradientBytes {
		compressed = fmt.Sprintf(" that travel as %s", bytesize.Text(t.WireBytes))
	}
	p.line("%s of gradients per step%s; each rank sends %s in a ring, or reads %s through shared memory",
		bytesize.Text(r.Traffic.GradientBytes), compressed, bytesize.Text(r.Traffic.RingBytes), bytesize.Text(r.Traffic.SharedBytes))
	if n := r.Traffic.LayerBytes; n > 0 {
		p.line("%s per step between each rank and its layer plugins", bytesize.Text(n))
	}
	if n := r.Traffic.NormBytes; n > 0 {
		p.line("%s of batch statistics per step", bytesize.Text(n))
	}
}

func (r *Report) memory(p *printer) {
	if r.Memory.total() == 0 {
		return
	}
	p.line("")
	t := p.table(1)
	t.cells("memory per rank", "")
	m := r.Memory
	for _, k := range []struct {
		name string
		n    int64
	}{
		{"parameters", m.Parameters}, {"gradients", m.Gradients}, {"optimizer", m.Optimizer}, {"buffers", m.Buffers},
		{"activations", m.Activations}, {"  kept for backward", m.Kept}, {"  recomputed there", m.Recomputed}, {"workspace", m.Workspace}, {"batches", m.Batches}, {"total", m.total()},
	} {
		if k.n > 0 {
			t.cells(k.name, bytesize.Text(k.n))
		}
	}
	t.flush()
	if m.RecomputeOff != "" && m.Recomputed == 0 {
		p.line("\nnote: backward recomputes no activations: %s", m.RecomputeOff)
	}
}

func ranks(w World) string {
	s := strconv.Itoa(w.Ranks)
	if w.Nodes > 1 {
		s += fmt.Sprintf(" = %d nodes × %d", w.Nodes, w.PerNode)
	}
	return s
}

func batch(b Batch, ranks int) string {
	if len(b.Shares) > 0 {
		return shares(b)
	}
	s := fmt.Sprintf("%d = %d per rank × %d", b.Global, b.PerRank, ranks)
	if b.PerRank*ranks*max(1, b.Accumulate) != b.Global {
		s = fmt.Sprintf("%d = up to %d per rank × %d", b.Global, b.PerRank, ranks)
	}
	if b.Accumulate > 1 {
		s += fmt.Sprintf(" × %d micro-steps", b.Accumulate)
	}
	return s
}

// shares is a batch of which ranks have unequal shares, of many ranks the first.
func shares(b Batch) string {
	const enough = 8
	text := make([]string, min(len(b.Shares), enough))
	for r := range text {
		text[r] = strconv.Itoa(b.Shares[r])
	}
	s := fmt.Sprintf("%d = %s", b.Global, strings.Join(text, " + "))
	if rest := len(b.Shares) - enough; rest > 0 {
		s += fmt.Sprintf(" + … (%d more ranks)", rest)
	}
	return s + fmt.Sprintf(", in micro-steps of up to %d", b.PerRank)
}

func steps(s Steps) string {
	out := decimal.Group(int64(s.Total))
	if s.PerEpoch > 0 && s.Epochs > 0 {
		out += fmt.Sprintf(" = %s per epoch × %d", decimal.Group(int64(s.PerEpoch)), s.Epochs)
		if s.Total < s.PerEpoch*s.Epochs {
			out = fmt.Sprintf("%s of %s per epoch × %d", decimal.Group(int64(s.Total)), decimal.Group(int64(s.PerEpoch)), s.Epochs)
		}
	}
	if s.LastBatch > 0 && s.Total >= s.PerEpoch { // else the run ends before it
		out += fmt.Sprintf("; the last step of each epoch has %d samples per rank", s.LastBatch)
	}
	return out
}

func samples(d Dataset) string {
	if d.TrainSamples == 0 && d.TestSamples == 0 {
		return ""
	}
	return fmt.Sprintf("%s train, %s test", decimal.Group(int64(d.TrainSamples)), decimal.Group(int64(d.TestSamples)))
}

func megaflops(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(n)/1e6, 'f', 3, 64)
}

func parens(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

func countIf(n int, one, many string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
