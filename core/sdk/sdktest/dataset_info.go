package sdktest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trainctl/trainctl/core/base/pattern"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

func checkInfo(_ context.Context, s *datasetSuite) error {
	return constantInfo(s.instance(0), sdk.KindDataset)
}

var (
	pluginName = pattern.Lazy{Expr: `^[a-z][a-z0-9]*(-[a-z0-9]+)*$`}
	optionName = pattern.Lazy{Expr: `^[a-z][a-z0-9]*(_[a-z0-9]+)*$`}
)

// checkedInfo checks what users see in lists and messages.
func checkedInfo(info sdk.Info, kind sdk.Kind) error {
	var all []error
	complain := func(format string, args ...any) { all = append(all, fmt.Errorf("Info: "+format, args...)) }
	if info.Kind != kind {
		complain("kind %q, want %q", info.Kind, kind)
	}
	if !pluginName.Get().MatchString(info.Name) {
		complain("name %q does not consist of lower-case words joined by -", info.Name)
	}
	if info.Version == "" {
		complain("no version")
	}
	if info.Summary == "" || strings.Contains(info.Summary, "\n") {
		complain("summary %q is not one line", info.Summary)
	}
	seen := map[string]bool{}
	for _, o := range info.Options {
		if seen[o.Name] {
			complain("two options are named %q", o.Name)
		}
		seen[o.Name] = true
		if err := checkedOption(o); err != nil {
			complain("option %q: %w", o.Name, err)
		}
	}
	return errors.Join(all...)
}

func checkedOption(o sdk.Option) error {
	switch {
	case !optionName.Get().MatchString(o.Name):
		return errors.New("the name does not consist of lower-case words joined by _")
	case o.Doc == "":
		return errors.New("no Doc")
	case o.Required && o.Default != nil:
		return errors.New("required and with a default")
	case o.Default == nil:
		return nil
	}
	checked, problems := sdk.CheckOptions("", []sdk.Option{o}, map[string]any{o.Name: o.Default})
	if err := problems.Err(); err != nil {
		return fmt.Errorf("the default breaks the option's own rules: %w", err)
	}
	if diff := difference(checked[o.Name], o.Default); diff != "" {
		return fmt.Errorf("the default is %T, a %s is passed as %T", o.Default, o.Type, checked[o.Name])
	}
	return nil
}

func checkSpec(ctx context.Context, s *datasetSuite) error {
	a, b, err := s.openTwo(ctx)
	if err != nil {
		return err
	}
	if diff := difference(a.spec, b.spec); diff != "" {
		return fmt.Errorf("the second Open returns another specification:\n%s", diff)
	}
	return validSpec(a.spec)
}

func validSpec(spec sdk.DatasetSpec) error {
	var all []error
	complain := func(format string, args ...any) { all = append(all, fmt.Errorf("DatasetSpec: "+format, args...)) }
	if spec.Source == "" {
		complain("no Source")
	}
	if spec.Fingerprint == "" {
		complain("no Fingerprint, so a resume with other data would not be detected")
	}
	if d := spec.Input.DType; d != tensor.F32 && d != tensor.I32 || !positive(spec.Input.Shape) {
		complain("Input %v, want f32 or i32 of positive dimensions", spec.Input)
	}
	if indices := spec.Input.DType == tensor.I32; indices != (spec.Vocabulary > 0) {
		complain("Input %v with a Vocabulary of %d; i32 inputs are indices in [0, Vocabulary), others have 0", spec.Input, spec.Vocabulary)
	}
	if spec.TrainSamples < 1 || spec.TestSamples < 0 {
		complain("%d training and %d test samples", spec.TrainSamples, spec.TestSamples)
	}
	if spec.TestBytes < 0 || spec.TestBytes > 0 && spec.TestSamples == 0 {
		complain("%d TestBytes in %d test samples", spec.TestBytes, spec.TestSamples)
	}
	if n := len(spec.ClassNames); n != 0 && n != spec.Classes {
		complain("%d names for %d classes", n, spec.Classes)
	}
	switch {
	case spec.Target.DType == tensor.I32 && positive(spec.Target.Shape):
		if spec.Classes < 1 {
			complain("Target %v has class indices and Classes is %d", spec.Target, spec.Classes)
		}
	case spec.Target.DType == tensor.F32 && positive(spec.Target.Shape):
		if s := spec.Target.Shape; spec.Classes != 0 && (len(s) == 0 || s[len(s)-1] != spec.Classes) {
			complain("Target is %v and Classes is %d: numbers have 0 classes, and probabilities end in one of each class", spec.Target, spec.Classes)
		}
	default:
		complain("Target %v, want i32 or f32 of positive dimensions", spec.Target)
	}
	return errors.Join(all...)
}

func positive(s tensor.Shape) bool {
	for _, d := range s {
		if d < 1 {
			return false
		}
	}
	return true
}
