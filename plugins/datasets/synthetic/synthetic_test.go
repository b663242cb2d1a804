package synthetic

import (
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
)

func TestContract(t *testing.T) {
	for name, table := range map[string]map[string]any{
		"classes":    {"train_samples": 300, "test_samples": 100},
		"regression": {"targets": "regression", "outputs": 3, "shape": []any{5}, "train_samples": 300, "test_samples": 0},
		"odd shape":  {"shape": []any{3, 17, 31}, "classes": 1000, "train_samples": 100, "test_samples": 1, "seed": 7},
	} {
		t.Run(name, func(t *testing.T) {
			sdktest.Dataset(t, sdktest.DatasetOptions{
				New:     func(testing.TB) sdk.Dataset { return New() },
				Options: table,
				Refused: map[string]map[string]any{
					"shape":   {"shape": []any{1 << 20, 1 << 20}},
					"classes": {"classes": 0},
					"outputs": {"outputs": 1 << 20},
					"targets": {"targets": "words"},
				},
			})
		})
	}
}

func opened(t testing.TB, seed uint64, given map[string]any) (*Dataset, sdk.DatasetSpec) {
	t.Helper()
	d := New()
	o, problems := sdk.CheckOptions("", d.Info().Options, given)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	spec, err := d.Open(t.Context(), sdk.DatasetRequest{Options: o, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return d, spec
}

func read(t testing.TB, d *Dataset, split sdk.Split, n int) (x []float32, target []byte) {
	t.Helper()
	b := &sdk.Batch{Split: split, Input: tensor.Aligned(n * d.spec.Input.Bytes()), Target: tensor.Aligned(n * d.spec.Target.Bytes())}
	for i := range n {
		b.Indices = append(b.Indices, int64(i))
	}
	if err := d.Fill(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return tensor.View[float32](b.Input), b.Target
}

func moments(x []float32) (mean, variance float64) {
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean)
	}
	return mean, variance / float64(len(x))
}

// A sample lies nearest to the pattern of its class: the classes can be told
// apart by a linear model.
func TestClassesCanBeLearned(t *testing.T) {
	d, spec := opened(t, 1, map[string]any{})
	const n = 500
	x, target := read(t, d, sdk.Test, n)
	seen := map[int32]int{}
	for i, class := range tensor.View[int32](target) {
		seen[class]++
		best, at := math.Inf(-1), int32(-1)
		for c := range spec.Classes {
			dot := 0.0
			for j, v := range x[i*d.elems : (i+1)*d.elems] {
				dot += float64(v * d.patterns[c*period+j%period])
			}
			if dot > best {
				best, at = dot, int32(c)
			}
		}
		if at != class {
			t.Fatalf("sample %d of class %d looks like %d", i, class, at)
		}
	}
	for c := range int32(spec.Classes) {
		if seen[c] < n/spec.Classes/2 {
			t.Errorf("class %d has %d of %d samples", c, seen[c], n)
		}
	}
}

func TestRegressionTargetsHaveUnitVariance(t *testing.T) {
	d, _ := opened(t, 1, map[string]any{"targets": "regression", "shape": []any{100}})
	x, target := read(t, d, sdk.Train, 4000)
	for name, v := range map[string][]float32{"input": x, "target": tensor.View[float32](target)} {
		if mean, variance := moments(v); math.Abs(mean) > 0.05 || math.Abs(variance-1) > 0.06 {
			t.Errorf("%s: mean %.3f, variance %.3f", name, mean, variance)
		}
	}
}

func TestSeedSplitAndShapeMatter(t *testing.T) {
	a, sa := opened(t, 1, map[string]any{})
	b, sb := opened(t, 2, map[string]any{})
	c, sc := opened(t, 2, map[string]any{"seed": 1})
	xa, _ := read(t, a, sdk.Train, 1)
	xb, _ := read(t, b, sdk.Train, 1)
	xc, _ := read(t, c, sdk.Train, 1)
	xt, _ := read(t, a, sdk.Test, 1)
	if xa[0] == xb[0] || xa[0] == xt[0] || sa.Fingerprint == sb.Fingerprint {
		t.Error("seed or split do not matter")
	}
	if xa[0] != xc[0] || sa.Fingerprint != sc.Fingerprint {
		t.Error("the option seed does not replace the seed of the run")
	}
}

// The numbers are part of what tests elsewhere expect of a loss curve.
func TestGolden(t *testing.T) {
	d, _ := opened(t, 42, map[string]any{"shape": []any{4}})
	x, target := read(t, d, sdk.Train, 2)
	want := []float32{-0.811962, 0.013850272, 1.6309981, -1.1819541, -1.3592908, 0.39497066, 0.08379418, -2.2185824}
	if !slices.Equal(x, want) || !slices.Equal(tensor.View[int32](target), []int32{9, 9}) {
		t.Errorf("got %v and %v, want %v and 9, 9", x, tensor.View[int32](target), want)
	}
}

func BenchmarkFill(b *testing.B) {
	d, _ := opened(b, 1, map[string]any{"shape": []any{3, 224, 224}})
	batch := &sdk.Batch{Indices: []int64{1, 2}, Input: tensor.Aligned(2 * d.spec.Input.Bytes()), Target: tensor.Aligned(8)}
	b.SetBytes(int64(len(batch.Input)))
	for b.Loop() {
		if err := d.Fill(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
