package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Options have the types that the file would give them.
func TestOptionsFromTheCommandLine(t *testing.T) {
	got, err := ParseOptions("dataset", []string{
		"dataset.options.n=3", "dataset.options.rate=0.5", "dataset.options.shape=[1, 28, 28]", "dataset.options.root=testdata",
		`dataset.options={ flag = true, names = ["a", "b"] }`,
	})
	want := map[string]any{
		"n": int64(3), "rate": 0.5, "shape": []any{int64(1), int64(28), int64(28)}, "root": "testdata", "flag": true, "names": []any{"a", "b"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, bad := range []string{"n=3", "backend.options.n=3", "dataset.options.=3", "dataset.options=3", "dataset.optionsn=3", "dataset.options.n=[1"} {
		if _, err := ParseOptions("dataset", []string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
