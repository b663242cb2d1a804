package python

import (
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// BenchmarkBatches compares data sets that copy samples of 28×28 floats out of one array,
// in Python with NumPy and in Go, at three batch sizes.
//
//	go test ./sdk/python -run - -bench Batches
func BenchmarkBatches(b *testing.B) {
	inPython(b)
	for _, size := range []int{16, 64, 256} {
		for name, plugin := range copying(b) {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) { batches(b, plugin, size) })
		}
	}
}

// copying are the plugins in testdata, by language.
func copying(b *testing.B) map[string]string {
	b.Helper()
	program := filepath.Join(b.TempDir(), "copies")
	if out, err := exec.Command("go", "build", "-o", program, "./testdata/copies").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return map[string]string{"go": program, "python": "./testdata/copies.py"}
}

// BenchmarkLayerCalls makes calls of a layer that copies its input, in Python with NumPy and in Go: forward and
// backward in turn, with 8 samples of 16 floats and with 64 of 65,536 (16 MiB).
//
//	go test ./sdk/python -run - -bench LayerCalls
func BenchmarkLayerCalls(b *testing.B) {
	inPython(b)
	for name, plugin := range copying(b) {
		for _, size := range [][2]int{{8, 16}, {64, 1 << 16}} {
			b.Run(fmt.Sprintf("%s/%dx%d", name, size[0], size[1]), func(b *testing.B) { layerCalls(b, plugin, size[0], size[1]) })
		}
	}
}

func layerCalls(b *testing.B, plugin string, batch, elems int) {
	l, err := host.New(host.Options{}).StartLayers(b.Context(), plugin)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(b.Context())
	r, err := l.Add(b.Context(), sdk.LayerRequest{Name: "same", Shape: []int{elems}}, "")
	if err != nil {
		b.Fatal(err)
	}
	x, y := tensor.Aligned(4*batch*elems), tensor.Aligned(4*batch*elems)
	n := 0
	for b.Loop() {
		for _, in := range [][][]byte{{x}, {x, y}} {
			if err := r.Compute(len(in) == 2, tensor.F32, batch, in, [][]byte{y}); err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/call")
}

// batches reads batches with two requests under way, as the loader does.
func batches(b *testing.B, plugin string, size int) {
	d, err := host.New(host.Options{}).StartDataset(b.Context(), plugin)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close(b.Context())
	if _, err := d.Open(b.Context(), sdk.DatasetRequest{Options: sdk.Options{}, WorldSize: 1, Log: slog.New(slog.DiscardHandler)}); err != nil {
		b.Fatal(err)
	}
	if err := d.Prepare(2, size); err != nil {
		b.Fatal(err)
	}
	indices := make([]int64, size)
	for i := range indices {
		indices[i] = int64(i * 7919 % 10_000)
	}
	request := func(slot int) {
		if err := d.Request(slot, sdk.Train, 0, 0, indices); err != nil {
			b.Fatal(err)
		}
	}
	request(0)
	n := 0
	for b.Loop() {
		n++
		request(n % 2)
		if _, _, err := d.Wait(1 - n%2); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "batches/s")
}
