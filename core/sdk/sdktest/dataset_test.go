package sdktest

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// model is a data set whose every answer a test can bend.
type model struct {
	info    func(sdk.Info) sdk.Info
	open    func(sdk.DatasetRequest, sdk.DatasetSpec) (sdk.DatasetSpec, error)
	fill    func(*model, *sdk.Batch)
	close   func(*model) error
	kept    []byte
	calls   int
	isOpen  bool
	lenient bool // accept every option
	read    func(*sdk.Batch)
	gap     bool // leave every second input element as it was
}

func (m *model) Info() sdk.Info {
	i := sdk.Info{Kind: sdk.KindDataset, Name: "model", Version: "1", Summary: "a model", Options: []sdk.Option{
		{Name: "size", Type: sdk.Int, Default: int64(20), Doc: "Samples."},
	}}
	if m.info != nil {
		return m.info(i)
	}
	return i
}

func (m *model) Open(_ context.Context, r sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	m.isOpen = true
	n := int(r.Options.Int("size"))
	if n < 1 && !m.lenient {
		return sdk.DatasetSpec{}, usererr.List{{Key: "size", Detail: "must be positive"}}.Err()
	}
	spec := sdk.DatasetSpec{Source: "model", Fingerprint: "x", Classes: 3, TrainSamples: n, TestSamples: 2,
		Input: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2}}, Target: tensor.Spec{DType: tensor.I32}}
	if m.open != nil {
		return m.open(r, spec)
	}
	return spec, nil
}

func (m *model) Fill(_ context.Context, b *sdk.Batch) error {
	if !m.isOpen {
		return errors.New("not open")
	}
	m.calls++
	if m.read != nil {
		m.read(b)
		if m.fill != nil {
			m.fill(m, b)
		}
		return nil
	}
	in, target := tensor.View[float32](b.Input), tensor.View[int32](b.Target)
	for i, index := range b.Indices {
		in[2*i] = float32(index)
		if !m.gap {
			in[2*i+1] = float32(drawn(b))
		}
		target[i] = int32(index % 3)
	}
	if m.fill != nil {
		m.fill(m, b)
	}
	return nil
}

// drawn stands for the random transform of an epoch.
func drawn(b *sdk.Batch) int {
	if b.NoAugment {
		return 0
	}
	return b.Epoch
}

func (m *model) Close() error {
	m.isOpen = false
	if m.close != nil {
		return m.close(m)
	}
	return nil
}

func options(bend func(*model)) DatasetOptions {
	return DatasetOptions{
		New: func(testing.TB) sdk.Dataset {
			m := &model{}
			bend(m)
			return m
		},
		Refused: map[string]map[string]any{"size": {"size": 0}},
	}
}

func TestSuitePassesAGoodDataset(t *testing.T) {
	Dataset(t, options(func(*model) {}))
}

// tokens makes the model one of tokens: integer inputs, and a class for each position.
func tokens(bend func(*model)) func(*model) {
	return func(m *model) {
		m.open = func(_ sdk.DatasetRequest, s sdk.DatasetSpec) (sdk.DatasetSpec, error) {
			s.Input, s.Target = tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{2}}, tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{2}}
			s.Vocabulary, s.Classes, s.TestBytes = 20, 20, 4
			return s, nil
		}
		m.read = func(b *sdk.Batch) {
			in, target := tensor.View[int32](b.Input), tensor.View[int32](b.Target)
			for i, index := range b.Indices {
				in[2*i], in[2*i+1] = int32(index), int32(drawn(b))
				target[2*i], target[2*i+1] = int32(drawn(b)), sdk.IgnoreIndex
			}
		}
		bend(m)
	}
}

func TestSuitePassesTokens(t *testing.T) {
	Dataset(t, options(tokens(func(*model) {})))
}

// onFill, onSpec and onInfo bend what the model fills, and says about itself.
func onFill(f func(*model, *sdk.Batch)) func(*model) { return func(m *model) { m.fill = f } }

func onSpec(f func(sdk.DatasetRequest, *sdk.DatasetSpec)) func(*model) {
	return func(m *model) {
		m.open = func(r sdk.DatasetRequest, s sdk.DatasetSpec) (sdk.DatasetSpec, error) { f(r, &s); return s, nil }
	}
}

func onInfo(f func(*sdk.Info)) func(*model) {
	return func(m *model) { m.info = func(i sdk.Info) sdk.Info { f(&i); return i } }
}

// fault is a data set that breaks one rule, and the check that notices.
type fault struct {
	check func(context.Context, *datasetSuite) error
	bend  func(*model)
}

func TestSuiteFindsFaults(t *testing.T) {
	opens := 0
	findsFaults(t, map[string]fault{
		"another kind":          {checkInfo, onInfo(func(i *sdk.Info) { i.Kind = sdk.KindBackend })},
		"undocumented option":   {checkInfo, onInfo(func(i *sdk.Info) { i.Options[0].Doc = "" })},
		"default of wrong type": {checkInfo, onInfo(func(i *sdk.Info) { i.Options[0].Default = 20 })},
		"accepts everything":    {checkRefused, func(m *model) { m.lenient = true }},
		"no fingerprint":        {checkSpec, onSpec(func(_ sdk.DatasetRequest, s *sdk.DatasetSpec) { s.Fingerprint = "" })},
		"no classes":            {checkSpec, onSpec(func(_ sdk.DatasetRequest, s *sdk.DatasetSpec) { s.Classes = 0 })},
		"changes":               {checkSpec, onSpec(func(_ sdk.DatasetRequest, s *sdk.DatasetSpec) { opens++; s.TrainSamples += opens })},
		"differs by rank":       {checkRanks, onSpec(func(r sdk.DatasetRequest, s *sdk.DatasetSpec) { s.TestSamples += r.Rank })},
		"no vocabulary":         {checkSpec, onSpec(func(_ sdk.DatasetRequest, s *sdk.DatasetSpec) { s.Input.DType = tensor.I32 })},
		"vocabulary of numbers": {checkSpec, onSpec(func(_ sdk.DatasetRequest, s *sdk.DatasetSpec) { s.Vocabulary = 5 })},
		"closes once": {checkClose, func(m *model) {
			m.close = func(m *model) error {
				if m.calls++; m.calls > 1 {
					return errors.New("closed already")
				}
				return nil
			}
		}},
		"works when closed": {checkClose, func(m *model) { m.close = func(m *model) error { m.isOpen = true; return nil } }},
	})
}

func TestSuiteFindsFaultyBatches(t *testing.T) {
	findsFaults(t, map[string]fault{
		"not a number": {checkEverySample, onFill(func(_ *model, b *sdk.Batch) { setInput(b, 0, float32(math.NaN())) })},
		"class out of range": {checkEverySample, onFill(func(_ *model, b *sdk.Batch) {
			for i := range b.Indices {
				tensor.View[int32](b.Target)[i] = 3
			}
		})},
		"token out of range": {checkEverySample, tokens(func(m *model) {
			m.fill = func(_ *model, b *sdk.Batch) { setToken(b.Input, 20) }
		})},
		"ignored input": {checkEverySample, tokens(func(m *model) {
			m.fill = func(_ *model, b *sdk.Batch) { setToken(b.Input, sdk.IgnoreIndex) }
		})},
		"target out of range": {checkEverySample, tokens(func(m *model) {
			m.fill = func(_ *model, b *sdk.Batch) { setToken(b.Target, -1) }
		})},
		"position in the batch": {checkComposition, onFill(func(_ *model, b *sdk.Batch) {
			for i := range b.Indices {
				setInput(b, i, float32(i))
			}
		})},
		"counts calls":        {checkEpochs, onFill(func(m *model, b *sdk.Batch) { setInput(b, 0, float32(m.calls)) })},
		"augments validation": {checkValidation, onFill(func(_ *model, b *sdk.Batch) { setInput(b, 0, float32(b.Epoch)) })},
		"writes behind": {checkMemory, onFill(func(_ *model, b *sdk.Batch) {
			*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b.Input)), len(b.Input))) = 1
		})},
		"leaves a gap": {checkMemory, func(m *model) { m.gap = true }},
		"keeps the slot": {checkAliasing, onFill(func(m *model, b *sdk.Batch) {
			if m.kept == nil {
				m.kept = b.Input
			}
			copy(b.Input, m.kept)
		})},
	})
}

func findsFaults(t *testing.T, faults map[string]fault) {
	t.Helper()
	for name, c := range faults {
		t.Run(name, func(t *testing.T) {
			if err := c.check(t.Context(), &datasetSuite{DatasetOptions: options(c.bend), t: t}); err == nil {
				t.Error("the suite did not notice")
			}
		})
	}
}

func setToken(mem []byte, v int32) {
	if len(mem) > 0 {
		tensor.View[int32](mem)[0] = v
	}
}

func setInput(b *sdk.Batch, sample int, v float32) {
	if sample < len(b.Indices) {
		tensor.View[float32](b.Input)[2*sample] = v
	}
}

// A call that does not return ends its check, under its name.
func TestSuiteBoundsCalls(t *testing.T) {
	o := options(func(m *model) { m.fill = func(*model, *sdk.Batch) { select {} } })
	o.CallTimeout = 10 * time.Millisecond
	err := checkEverySample(t.Context(), &datasetSuite{DatasetOptions: o, t: t})
	if err == nil || !strings.Contains(err.Error(), "Fill took longer than 10ms and ignores its context") {
		t.Error(err)
	}
}
