package csv

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
)

const flowers = `# measured in 1936
"sepal length",width,species,"note, long"
5.1,3.5,setosa,"says ""short"""
7.0,3.2,versicolor,
-6.3e0, 3.3,virginica,"two
lines"
4.9,3.1,setosa,x
`

// files is a file system with files of the given contents.
func files(contents map[string]string) afero.Fs {
	fs := afero.NewMemMapFs()
	for name, text := range contents {
		_ = afero.WriteFile(fs, name, []byte(text), 0o600)
	}
	return fs
}

// read opens a data set and reads a split.
func read(t *testing.T, fs afero.Fs, split sdk.Split, table map[string]any) (spec sdk.DatasetSpec, in []float32, target []byte) {
	t.Helper()
	d := New(fs)
	spec, err := sdktest.OpenDataset(t, d, table, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := []int{spec.TrainSamples, spec.TestSamples}[split]
	b := &sdk.Batch{Split: split, Input: tensor.Aligned(n * spec.Input.Bytes()), Target: tensor.Aligned(n * spec.Target.Bytes())}
	for i := range n {
		b.Indices = append(b.Indices, int64(i))
	}
	if err := d.Fill(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return spec, tensor.View[float32](b.Input), b.Target
}

func TestNamesQuotesAndLabels(t *testing.T) {
	fs := files(map[string]string{"a.csv": flowers, "b.csv": "width,species,sepal length\n2,virginica,1\n"})
	table := map[string]any{"train": "a.csv", "test": "b.csv", "targets": []any{"species"}, "columns": []any{"width", "sepal length"}, "comment": "#"}
	spec, in, target := read(t, fs, sdk.Train, table)
	if got := spec.Input.String() + spec.Target.String(); got != "f32[2]i32[]" || !slices.Equal(spec.ClassNames, []string{"setosa", "versicolor", "virginica"}) || spec.Classes != 3 {
		t.Errorf("%s, classes %q", got, spec.ClassNames)
	}
	if want := []float32{3.5, 5.1, 3.2, 7, 3.3, -6.3, 3.1, 4.9}; !slices.Equal(in, want) {
		t.Errorf("inputs %v, want %v", in, want)
	}
	if got := tensor.View[int32](target); !slices.Equal(got, []int32{0, 1, 2, 0}) {
		t.Errorf("classes %v", got)
	}
	_, in, target = read(t, fs, sdk.Test, table)
	if got := tensor.View[int32](target); !slices.Equal(in, []float32{2, 1}) || got[0] != 2 {
		t.Errorf("a test file with another order of columns: %v of class %v", in, got)
	}
}

func TestRegressionWithoutHeader(t *testing.T) {
	fs := files(map[string]string{"a.csv": "1;2;30;4\n5;NA;70;8\n6;4;80;9\n"})
	spec, in, target := read(t, fs, sdk.Train, map[string]any{"train": "a.csv", "header": false, "delimiter": ";", "targets": []any{"3", "0"}, "task": "regression", "missing": "mean"})
	if got := spec.Input.String() + spec.Target.String(); got != "f32[2]f32[2]" || spec.Classes != 0 {
		t.Error(got)
	}
	if !slices.Equal(in, []float32{2, 30, 3, 70, 4, 80}) || !slices.Equal(tensor.View[float32](target), []float32{4, 1, 8, 5, 9, 6}) {
		t.Errorf("inputs %v, targets %v", in, tensor.View[float32](target))
	}
}

// Files that are predicted are read by name, without targets, and as the data set transforms its test split.
func TestReadFilesWithoutTargets(t *testing.T) {
	fs := files(map[string]string{"a.csv": flowers, "new.csv": "extra,sepal length,width\nx,5.1,NA\ny,-6.3,3.3\n", "bad.csv": "width\n1\n"})
	table := map[string]any{"train": "a.csv", "targets": []any{"species"}, "columns": []any{"width", "sepal length"}, "comment": "#", "normalize": "standard", "missing": "mean"}
	d := New(fs)
	options, _ := sdk.CheckOptions("", d.Info().Options, table)
	_, train, _ := read(t, fs, sdk.Train, table)
	got, err := d.Read(options, "new.csv")
	if err != nil {
		t.Fatal(err)
	}
	x := tensor.View[float32](got)
	if len(x) != 4 || math.Abs(float64(x[0])) > 1e-6 || !slices.Equal(x[1:2], train[1:2]) || !slices.Equal(x[2:], train[4:6]) {
		t.Errorf("inputs %v; those of the training file are %v", x, train)
	}
	if _, err := d.Read(options, "bad.csv"); err == nil || !strings.Contains(err.Error(), `bad.csv has no column "sepal length"`) {
		t.Errorf("a file without a column: %v", err)
	}
}

func TestClassNames(t *testing.T) {
	for labels, want := range map[string]string{
		"2 0 1 0": "", "0 -100 1": "", "1 2 10": "1 2 10", "b a b": "a b", "0 2": "0 2", "1 a": "1 a",
	} {
		if got := strings.Join(classNames(strings.Fields(labels), nil), " "); got != want {
			t.Errorf("labels %s: classes %q, want %q", labels, got, want)
		}
	}
}

func TestCSVContract(t *testing.T) {
	fs := files(map[string]string{"a.csv": flowers})
	sdktest.Dataset(t, sdktest.DatasetOptions{
		New:     func(testing.TB) sdk.Dataset { return New(fs) },
		Options: map[string]any{"train": "a.csv", "test": "a.csv", "targets": []any{"species"}, "columns": []any{"width", "sepal length"}, "comment": "#", "normalize": "standard"},
		Refused: map[string]map[string]any{
			"targets": {"targets": []any{"specie"}}, "columns": {"columns": []any{"species"}}, "delimiter": {"delimiter": "::"},
			"comment": {"comment": "\""}, "task": {"task": "rank"}, "classes": {"classes": []any{"setosa"}}, "shape": {"shape": []any{3}},
		},
	})
}

// What is wrong in a file is said with file, line and column, and the fix.
func TestWrongTables(t *testing.T) {
	base := map[string]any{"train": "a.csv", "targets": []any{"y"}}
	for _, c := range []struct {
		content, says string
		change        map[string]any
	}{
		{"x,y\n1,0\n,1\n", `a.csv:3:1: column "x" is missing; fix: fill it`, nil},
		{"x,y\n1,0\n\"a\nb\",1\n", `a.csv:3:1: column "x" is "a\nb", which is not a finite number; fix: correct it`, nil},
		{"x,z,y\n1,2,0\n1, 1e99,1\n", `a.csv:3:4: column "z" is "1e99"`, nil},
		{"x,y\n1,0\n1,\n", `a.csv:3:3: column "y" is missing; fix: give the sample a class`, nil},
		{"x,y\n1,0\n1,?\n", `a.csv:3:3: column "y" is missing`, map[string]any{"task": "regression", "missing": "mean"}},
		{"x,y\n1,0\n1\n", "a.csv: record on line 3: wrong number of fields", nil},
		{"x,y\n1,0\n1,\"0\n", `a.csv: parse error on line 3, column 6: extraneous or missing`, nil},
		{"x,y\n", "a.csv has no samples", nil},
		{"", "a.csv has no samples", nil},
		{"x,x,y\n1,2,0\n", `a.csv has two columns "x"`, nil},
		{"y\n0\n", "a.csv has no column left for the inputs", nil},
		{"x,yy\n1,0\n", `a.csv has no column "y"`, nil},
		{"x,y\n1,c\n", `b.csv:2: column "y": "d" is not one of the classes of the training samples`, map[string]any{"test": "b.csv"}},
	} {
		table := map[string]any{}
		for _, m := range []map[string]any{base, c.change} {
			for k, v := range m {
				table[k] = v
			}
		}
		_, err := sdktest.OpenDataset(t, New(files(map[string]string{"a.csv": c.content, "b.csv": "x,y\n1,d\n"})), table, nil)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: want %q, got %v", c.content, c.says, err)
		}
	}
	d := New(files(nil))
	options, _ := sdk.CheckOptions("", d.Info().Options, base)
	if l := usererr.Problems(d.Locate(options)); len(l) != 1 || l[0].Key != "train" {
		t.Errorf("a file that is not there: %v", l)
	}
}
