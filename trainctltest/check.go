package trainctltest

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/custom"
)

// CheckLayer trains small models with a layer whose inputs have the shape in, without the batch, and reports what is wrong: gradients
// that are not slopes of the loss (in float64, for every element of the parameters, and of a layer before this one), float32 that differs from float64, results
// that differ from call to call or between ranks that call at the same time, gradients that are written instead of added, and broken promises of
// InPlace. args are keys of the layer as TOML has them: float64, int, bool, string or []int. The layer need not be registered.
func CheckLayer(t testing.TB, l custom.Layer, in []int, args map[string]any) {
	t.Helper()
	report(t, "layer", l.Name, layerProblems(l, in, args))
}

// CheckLoss does the same for a loss of so many outputs: of logits of classes, or of numbers.
func CheckLoss(t testing.TB, l custom.Loss, outputs int, args map[string]any) {
	t.Helper()
	report(t, "loss", l.Name, lossProblems(l, outputs, args))
}

func report(t testing.TB, kind, name string, problems []error) {
	t.Helper()
	for _, p := range problems {
		t.Errorf("%s %s: %v", kind, name, p)
	}
}

// The names of layers in trials.
const (
	before  = "before"
	checked = "checked"
	after   = "after"
)

func linear(name string, out int) nn.LayerConfig {
	return nn.LayerConfig{Type: "linear", Name: name, Args: op.Args{"out_features": out}}
}

func layerProblems(l custom.Layer, in []int, args map[string]any) []error {
	return registered(&l.Name, func() custom.Definition { return l }, func() []error { return layerTrials(l, in, args) })
}

func layerTrials(l custom.Layer, in []int, args map[string]any) (problems []error) {
	if len(in) == 0 {
		return []error{errors.New("CheckLayer needs the shape of a sample, of one dimension or more")}
	}
	own := nn.LayerConfig{Type: l.Name, Name: checked, Args: args}
	behind := []nn.LayerConfig{own, {Type: "flatten"}, linear(after, 3)}
	tr := trial{
		cfg: nn.Config{Layers: append([]nn.LayerConfig{linear(before, in[len(in)-1])}, behind...)}, classes: 3,
		in: tensor.Spec{DType: tensor.F32, Shape: in}, target: tensor.Spec{DType: tensor.I32},
		opt: plan.Options{DType: tensor.F64, Fuse: true},
	}
	if problems = tr.slopes(); len(problems) > 0 {
		return problems
	}
	problems = tr.variants()
	if l.Shape == nil {
		problems = append(problems, tr.besideShortcut(own)...)
	}
	tr.cfg.Layers = behind
	for _, p := range tr.slopes() {
		problems = append(problems, fmt.Errorf("as the first layer, whose DX nobody needs: %w", p))
	}
	if params, err := l.Parameters(in, args); err == nil && len(params) > 0 {
		frozen := tr
		frozen.cfg.Freeze = []string{checked}
		problems = append(problems, tr.compare("with frozen parameters", frozen, 1e-12, 1))
	}
	return dropNil(problems)
}

// besideShortcut runs a layer in a residual block: its X and DY belong to the shortcut, too.
func (tr trial) besideShortcut(own nn.LayerConfig) (problems []error) {
	block := nn.LayerConfig{Type: "residual", Layers: []nn.LayerConfig{own}}
	tr.cfg.Layers = []nn.LayerConfig{linear(before, tr.in.Shape[len(tr.in.Shape)-1]), block, {Type: "flatten"}, linear(after, 3)}
	for _, p := range tr.slopes() {
		problems = append(problems, fmt.Errorf("in a residual block (do functions change X or DY?): %w", p))
	}
	return problems
}

func lossProblems(l custom.Loss, outputs int, args map[string]any) []error {
	return registered(&l.Name, func() custom.Definition { return l }, func() []error { return lossTrials(l, outputs, args) })
}

func lossTrials(l custom.Loss, outputs int, args map[string]any) []error {
	tr := trial{
		cfg: nn.Config{Layers: []nn.LayerConfig{linear(before, outputs)}, Loss: l.Name, Args: args},
		in:  tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{4}}, opt: plan.Options{DType: tensor.F64, Fuse: true},
	}
	if l.Targets == custom.Classes {
		tr.target, tr.classes = tensor.Spec{DType: tensor.I32}, outputs
	} else {
		tr.target = tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{outputs}}
	}
	if problems := tr.slopes(); len(problems) > 0 {
		return problems
	}
	return dropNil(tr.variants())
}

// variants compares a trial in float64 with what has to give the same.
func (tr trial) variants() (problems []error) {
	single, half, apart, twice, large := tr, tr, tr, tr, tr
	single.opt.DType, half.opt.DType = tensor.F32, tensor.F32
	half.opt.Policy = bfloat16()
	apart.opt.Fuse = false
	twice.passes, large.batch = 2, sharedElems/tr.in.Shape.Elems()+1
	threads := large
	threads.threads = 3
	return []error{
		tr.compare("float32 differs from float64", single, 1e-3, 1),
		tr.compare("bfloat16 differs from float64", half, 0.2, 1),
		tr.compare("a second call differs", tr, 0, 1),
		tr.compare("without sharing memory (is InPlace true?)", apart, 1e-12, 1),
		tr.compare("two passes whose gradients add up", twice, 1e-9, 2),
		large.compare("three threads of a rank (is PerSample true?)", threads, 1e-9, 1),
		tr.together(),
	}
}

// compare runs both, and expects the other's gradients to be so many times those of the trial.
func (tr trial) compare(what string, other trial, tolerance, times float64) error {
	want, got, err := both(what, tr.run, other.run)
	if err != nil {
		return err
	}
	return want.near(what, got, tolerance, times)
}

// both runs one and another, whose error says what that is.
func both[R any](what string, run, other func() (R, error)) (a, b R, err error) {
	if a, err = run(); err != nil {
		return a, b, err
	}
	if b, err = other(); err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return a, b, err
}

// together runs the trial on several goroutines, as ranks that are threads do.
func (tr trial) together() error {
	want, err := tr.run()
	if err != nil {
		return err
	}
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			got, err := tr.run()
			if err != nil {
				return err
			}
			return want.near("ranks that are threads", got, 0, 1)
		})
	}
	return g.Wait()
}

func dropNil(all []error) (problems []error) {
	for _, err := range all {
		if err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}
