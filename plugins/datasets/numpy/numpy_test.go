package numpy

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
)

const archive = "testdata/arrays.npz"

// golden is what NumPy reads: testdata/make.py wrote it.
type golden struct {
	Values   map[string][]float64
	Standard []float64
}

func want(t *testing.T) golden { return testjson.Read[golden](t, "testdata/want.json") }

// Every element type, byte order and memory order is read as NumPy reads it.
func TestArraysAreNumPys(t *testing.T) {
	for name, values := range want(t).Values {
		a, err := load(afero.NewOsFs(), place{archive, name}, "inputs")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := make([]float64, a.Shape.Elems())
		a.Row(got, 0)
		if !slices.Equal(got, values) {
			t.Errorf("%s: %v, want %v", name, got, values)
		}
	}
}

// readAll opens a data set and reads its training samples.
func readAll(t *testing.T, table map[string]any) (sdk.DatasetSpec, *sdk.Batch) {
	t.Helper()
	d := New(afero.NewOsFs())
	spec, err := sdktest.OpenDataset(t, d, table, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &sdk.Batch{Input: tensor.Aligned(6 * spec.Input.Bytes()), Target: tensor.Aligned(6 * spec.Target.Bytes())}
	for i := range 6 {
		b.Indices = append(b.Indices, int64(i))
	}
	if err := d.Fill(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return spec, b
}

func TestStandardIsNumPysMeanAndStd(t *testing.T) {
	spec, b := readAll(t, map[string]any{"inputs": archive + ":f8", "targets": "testdata/y.npy", "normalize": "standard"})
	for i, v := range tensor.View[float32](b.Input) {
		if w := want(t).Standard[i]; math.Abs(float64(v)-w) > 1e-6 {
			t.Errorf("element %d: %v, want %v", i, v, w)
		}
	}
	if got := tensor.View[int32](b.Target); !slices.Equal(got, []int32{0, 2, 1, 1, 0, sdk.IgnoreIndex}) || spec.Classes != 3 {
		t.Errorf("classes %v of %d", got, spec.Classes)
	}
}

func TestTargetsAndTypes(t *testing.T) {
	values := want(t).Values
	spec, b := readAll(t, map[string]any{"inputs": "testdata/f4.npy", "targets": archive + ":y_float", "task": "regression", "shape": []any{6}, "mean": []any{1.0}, "std": []any{2.0}})
	if got := spec.Input.String() + spec.Target.String(); got != "f32[6]f32[1]" || spec.Classes != 0 {
		t.Errorf("regression: %s", got)
	}
	for i, v := range tensor.View[float32](b.Input) {
		if w := float32((values["f4"][i] - 1) / 2); v != w {
			t.Errorf("input %d: %v, want %v", i, v, w)
		}
	}
	for i, v := range tensor.View[float32](b.Target) {
		if v != float32(values["y_float"][i]) {
			t.Errorf("target %d: %v", i, v)
		}
	}
	spec, b = readAll(t, map[string]any{"inputs": archive + ":u1", "targets": archive + ":u2", "input_type": "index"})
	if spec.Input.DType != tensor.I32 || spec.Vocabulary != int(slices.Max(values["u1"]))+1 || spec.Tokens() != 6 {
		t.Errorf("indices: %+v", spec)
	}
	for i, v := range tensor.View[int32](b.Input) {
		if float64(v) != values["u1"][i] {
			t.Errorf("index %d: %v", i, v)
		}
	}
}

func TestNumpyContract(t *testing.T) {
	sdktest.Dataset(t, sdktest.DatasetOptions{
		New:     func(testing.TB) sdk.Dataset { return New(afero.NewOsFs()) },
		Options: map[string]any{"inputs": archive + ":f8", "targets": archive + ":y", "test_inputs": archive + ":i4", "test_targets": archive + ":y", "normalize": "standard"},
		Refused: map[string]map[string]any{
			"shape":       {"shape": []any{5}},
			"inputs":      {"inputs": archive + ":none"},
			"targets":     {"targets": "y.txt"},
			"test_inputs": {"test_inputs": ""},
			"classes":     {"classes": []any{"a", "b"}},
			"mean":        {"mean": []any{1.0}},
			"std":         {"normalize": "none", "std": []any{1.0, 2.0, 3.0}},
			"normalize":   {"input_type": "index"},
		},
	})
}

// What is wrong with a file is said with its name and the fix.
func TestDamagedArrays(t *testing.T) {
	good, err := os.ReadFile("testdata/f4.npy")
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	for says, content := range map[string]string{
		"it ends after 143 of the 144 bytes":          text[:len(text)-1],
		"does not begin as an array of NumPy":         "PK" + text,
		"version 9 of the format":                     strings.Replace(text, "\x93NUMPY\x01", "\x93NUMPY\x09", 1),
		"is of no array of numbers":                   strings.Replace(text, "descr", "other", 1),
		`elements of type "<c8" are not supported`:    strings.Replace(text, "<f4", "<c8", 1),
		"a single number":                             strings.Replace(text, "(6, 2, 3)", "()       ", 1),
		"the shape (99999999, 99999999) is too large": strings.Replace(text, "(6, 2, 3), }        ", "(99999999, 99999999)", 1),
		"element 0 of sample 0 is NaN":                text[:128] + "\x00\x00\xc0\x7f" + text[132:],
	} {
		fs := afero.NewMemMapFs()
		y, _ := os.ReadFile("testdata/y.npy")
		_ = afero.WriteFile(fs, "y.npy", y, 0o600)
		_ = afero.WriteFile(fs, "x.npy", []byte(content), 0o600)
		_, err := sdktest.OpenDataset(t, New(fs), map[string]any{"inputs": "x.npy", "targets": "y.npy"}, nil)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "x.npy") {
			t.Errorf("want %q, got %v", says, err)
		}
	}
	for says, table := range map[string]map[string]any{
		"elements of type":               {"inputs": "testdata/c16.npz", "targets": "testdata/y.npy"},
		"it has b1, big, big_i2":         {"inputs": archive, "targets": "testdata/y.npy"},
		"set task = \"regression\"":      {"inputs": "testdata/f4.npy", "targets": archive + ":y_float"},
		"has the negative index":         {"inputs": archive + ":i4", "targets": "testdata/y.npy", "input_type": "index"},
		"classes are integers from 0 on": {"inputs": archive + ":i4", "targets": archive + ":i4"},
		"the class 2, and there are 2":   {"inputs": archive + ":f4", "targets": archive + ":y", "classes": []any{"a", "b"}},
		`there is no file at "none.npy"`: {"inputs": "none.npy", "targets": "testdata/y.npy"},
	} {
		_, err := sdktest.OpenDataset(t, New(afero.NewOsFs()), table, nil)
		if err == nil || !strings.Contains(err.Error()+helpOf(err), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

// helpOf is the fix that an error of options carries.
func helpOf(err error) (help string) {
	for _, p := range usererr.Problems(err) {
		help += p.Help
	}
	return help
}
