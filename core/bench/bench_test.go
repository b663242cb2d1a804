package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trainctl/trainctl/core/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestInPlaceReduces(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		d, err := inPlace(n, 12*1024, tensor.F32, time.Millisecond)
		if err != nil || d <= 0 {
			t.Errorf("%d threads: %v, %v", n, d, err)
		}
	}
}

// The slices of all threads together are the whole of every buffer.
func TestLimitReducesEverything(t *testing.T) {
	const n, size = 3, 300_000
	l := &limit{size: size, dtype: tensor.I32}
	for r := range n {
		l.bufs = append(l.bufs, tensor.Aligned(size))
		for i := range tensor.View[int32](l.bufs[r]) {
			tensor.View[int32](l.bufs[r])[i] = int32(i + r)
		}
	}
	for r := range n {
		l.reduce(r, make([][]byte, n))
	}
	for r := range n {
		for i, x := range tensor.View[int32](l.bufs[r]) {
			if x != int32(3*i+3) {
				t.Fatalf("buffer %d, element %d: %d", r, i, x)
			}
		}
	}
}

func TestPercentile(t *testing.T) {
	l := laps{5, 1, 4, 2, 3}
	if a, b := l.percentile(0.5), l.percentile(0.99); a != 3 || b != 5 {
		t.Errorf("%v and %v", a, b)
	}
	if d := (laps{}).percentile(0.5); d != 0 {
		t.Errorf("of nothing: %v", d)
	}
}

func TestSpecSurvivesItsJourney(t *testing.T) {
	want := Spec{Backend: "tcp", World: 2, Sizes: []int{4}, DType: tensor.F16, Options: map[string]any{
		"a": int64(12), "b": 1.5, "c": "word", "d": []any{int64(1), int64(2)}, "e": false,
	}}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Spec
	if err := got.decode(string(raw)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, want %#v", got, want)
	}
	if got.Options["a"] != int64(12) || got.Options["e"] != false {
		t.Errorf("%#v", got.Options)
	}
}

func TestCheck(t *testing.T) {
	good := Spec{World: 1, Sizes: []int{8}, DType: tensor.F64}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, s := range []Spec{{World: 0, Sizes: []int{8}, DType: tensor.F64}, {World: 1, DType: tensor.F64}, {World: 1, Sizes: []int{12}, DType: tensor.F64}} {
		if s.Check() == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
}

func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	if err := Save("", 1); err != nil {
		t.Error(err)
	}
	if err := Save(path, map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || string(b) != "{\n  \"a\": 1\n}\n" {
		t.Errorf("%q %v", b, err)
	}
}
