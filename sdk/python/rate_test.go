package python

import (
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// BenchmarkBatches compares data sets that copy samples of 28×28 floats out of one array,
// in Python with NumPy and in Go, at three batch sizes.
//
//	go test ./sdk/python -run - -bench Batches
func BenchmarkBatches(b *testing.B) {
	inPython(b)
	program := filepath.Join(b.TempDir(), "copies")
	if out, err := exec.Command("go", "build", "-o", program, "./testdata/copies").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, size := range []int{16, 64, 256} {
		for name, plugin := range map[string]string{"go": program, "python": "./testdata/copies.py"} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) { batches(b, plugin, size) })
		}
	}
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
