package checkpoint

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trainctl/trainctl/core/tensor"
)

func f32s(name string, v ...float32) tensor.Named {
	t := tensor.New(tensor.F32, len(v))
	copy(t.F32(), v)
	return tensor.Named{Name: name, Tensor: t}
}

func TestCompare(t *testing.T) {
	nan := float32(math.NaN())
	i64 := tensor.Named{Name: "n", Tensor: tensor.New(tensor.I64)}
	for _, c := range []struct {
		name string
		a, b []tensor.Named
		tol  Tolerance
		want []Difference
	}{
		{"equal", []tensor.Named{f32s("w", 1, 2), i64}, []tensor.Named{i64, f32s("w", 1, 2)}, Tolerance{}, nil},
		{"wrapped", []tensor.Named{f32s("w.x", 1)}, []tensor.Named{f32s("module.w.x", 1)}, Tolerance{}, nil},
		{"not numbers, and zeros of both signs", []tensor.Named{f32s("w", nan, 0)}, []tensor.Named{f32s("w", nan, float32(math.Copysign(0, -1)))}, Tolerance{}, nil},
		{"values", []tensor.Named{f32s("w", 1, 2, 8)}, []tensor.Named{f32s("w", 1, 4, 7)}, Tolerance{}, []Difference{
			{Part: "model", Name: "w", A: "f32[3]", B: "f32[3]", Elements: 2, Of: 3, At: 1, MaxAbs: 2, MaxRel: 0.5, ValueA: 2, ValueB: 4}}},
		{"within the tolerance", []tensor.Named{f32s("w", 1, 2, 8)}, []tensor.Named{f32s("w", 1, 4, 7)}, Tolerance{Abs: 1, Rel: 0.25}, nil},
		{"a number and none", []tensor.Named{f32s("w", nan)}, []tensor.Named{f32s("w", 1)}, Tolerance{Abs: 10}, []Difference{
			{Part: "model", Name: "w", A: "f32[1]", B: "f32[1]", Elements: 1, Of: 1, MaxAbs: math.Inf(1), MaxRel: math.Inf(1), ValueA: math.NaN(), ValueB: 1}}},
		{"shapes and names", []tensor.Named{f32s("w", 1, 2), f32s("a", 1)}, []tensor.Named{f32s("w", 1), f32s("b", 1)}, Tolerance{}, []Difference{
			{Part: "model", Name: "w", A: "f32[2]", B: "f32[1]"}, {Part: "model", Name: "a", A: "f32[1]"}, {Part: "model", Name: "b", B: "f32[1]"}}},
	} {
		got, err := Compare(&Snapshot{Model: c.a}, &Snapshot{Model: c.b}, false, c.tol)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		same := cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
		if diff := cmp.Diff(c.want, got.Differences, same); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// A tensor that was rounded differs by its type, and by its values only where
// they were rounded.
func TestCompareTypes(t *testing.T) {
	half, _, err := Cast(f32s("w", 1, 1.001).Tensor, tensor.BF16)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Compare(&Snapshot{Model: []tensor.Named{f32s("w", 1, 1.001)}}, &Snapshot{Model: []tensor.Named{{Name: "w", Tensor: half}}}, false, Tolerance{})
	if err != nil || len(got.Differences) != 1 || got.Differences[0].Elements != 1 || got.Differences[0].B != "bf16[2]" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCompareManifests(t *testing.T) {
	a := &Snapshot{Step: 10, Seed: 1, Metrics: map[string]float64{"train.loss": math.NaN()}, CreatedBy: "a"}
	b := &Snapshot{Step: 20, Seed: 1, Metrics: map[string]float64{"train.loss": math.NaN()}, CreatedBy: "b"}
	got, err := Compare(a, b, true, Tolerance{})
	want := []Difference{{Part: "manifest", Name: "step", A: "10", B: "20"}}
	if diff := cmp.Diff(want, got.Differences); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Casts are PyTorch's: torch.tensor(values, dtype=…).to(…).
func TestCast(t *testing.T) {
	in := f32s("w", 1, 1+1.0/512, 1+3.0/512, 65504, 70000, -1e-8, float32(math.Inf(-1)))
	for _, c := range []struct {
		to       tensor.DType
		want     []float64
		overflow int
	}{
		{tensor.F64, []float64{1, 1 + 1.0/512, 1 + 3.0/512, 65504, 70000, float64(float32(-1e-8)), math.Inf(-1)}, 0},
		{tensor.F16, []float64{1, 1 + 1.0/512, 1 + 3.0/512, 65504, math.Inf(1), 0, math.Inf(-1)}, 1},
		{tensor.BF16, []float64{1, 1, 1 + 1.0/128, 65536, 70144, float64(tensor.F32FromBF16(tensor.BF16FromF32(-1e-8))), math.Inf(-1)}, 0},
	} {
		out, overflow, err := Cast(in.Tensor, c.to)
		if err != nil {
			t.Fatal(err)
		}
		at := values(out)
		for i, want := range c.want {
			if got := at(i); got != want {
				t.Errorf("%v to %v: %v, want %v", in.F32()[i], c.to, got, want)
			}
		}
		if overflow != c.overflow || out.DType != c.to {
			t.Errorf("%v: %d overflowed, want %d", out.DType, overflow, c.overflow)
		}
	}
	if _, _, err := Cast(tensor.New(tensor.I64, 1), tensor.F16); err == nil {
		t.Error("integers were rounded")
	}
}

func TestRename(t *testing.T) {
	for _, c := range []struct {
		names []string
		wrap  bool
		want  string // names, or a part of the error
	}{
		{[]string{"fc.weight", "fc.bias"}, true, "module.fc.weight module.fc.bias"},
		{[]string{"module.fc.weight"}, true, "module.fc.weight"},
		{[]string{"module.fc.weight", "module.fc.module.bias"}, false, "fc.module.bias"},
		{[]string{"a.module.w", "b.w"}, false, "a.w b.w"},
		{[]string{"module.w", "b"}, false, "only some of the names have the module. prefix"},
	} {
		var in []tensor.Named
		for _, n := range c.names {
			in = append(in, f32s(n, 1))
		}
		got, err := Rename(in, c.wrap)
		text := strings.Join(namesOf(got), " ")
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%v, wrap %v: %q, want %q", c.names, c.wrap, text, c.want)
		}
		if !slices.Equal(namesOf(in), c.names) {
			t.Errorf("the names of the argument changed: %v", namesOf(in))
		}
	}
}
