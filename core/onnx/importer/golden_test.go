package importer

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/tensor"
)

// golden is what PyTorch computes for a file that one of its exporters has written: testdata/make.py.
type golden struct {
	File   string
	Rows   int
	Output []float64
}

// content is a compressed file of testdata.
func content(t testing.TB, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", name+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// samples are those of testdata/make.py.
func (n *Network) samples(rows int) []byte {
	if n.Sample.DType == tensor.I32 {
		x := make([]int32, rows*n.Sample.Shape.Elems())
		for i := range x {
			x[i] = int32(i * 5 % 11)
		}
		return tensor.Bytes(x)
	}
	x := make([]float32, rows*n.Sample.Shape.Elems())
	for i := range x {
		x[i] = float32(math.Sin(0.7*float64(i) + 0.3))
	}
	return tensor.Bytes(x)
}

// Networks that PyTorch's exporters have written compute what PyTorch computes.
func TestPyTorchExports(t *testing.T) {
	for _, want := range testjson.Read[[]golden](t, "testdata/goldens.json") {
		t.Run(want.File, func(t *testing.T) {
			t.Parallel()
			n := imported(t, content(t, want.File), "")
			if strings.HasPrefix(want.File, "words") && n.Parameters != 1360 {
				t.Errorf("%d parameters, want 1360: the head has the embedding's weight", n.Parameters)
			}
			got := n.output(t, want.Rows, n.samples(want.Rows))
			if len(got) != len(want.Output) {
				t.Fatalf("%d outputs, want %d", len(got), len(want.Output))
			}
			for i, v := range want.Output {
				if d := math.Abs(float64(got[i]) - v); !(d <= 1e-5*max(1, math.Abs(v))) {
					t.Fatalf("output %d is %v, want %v", i, got[i], v)
				}
			}
		})
	}
}
