package gpu

import (
	"testing"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// What a wait costs when the work is done already: a look of ours against CUDA's
// own wait, over a driver that does nothing.
func BenchmarkWait(b *testing.B) {
	cudatest.Libraries(b, 1)
	cu, err := driver.OpenCUDA(dl.System())
	if err != nil {
		b.Fatal(err)
	}
	g, err := New(cu, 0, 256, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = g.Close(func() error { return nil }) }()
	for name, wait := range map[string]func() error{
		"poll":        func() error { return g.Finish(Doing("nothing")) },
		"synchronize": func() error { return g.CU.StreamSynchronize(g.Stream) },
	} {
		b.Run(name, func(b *testing.B) {
			defer g.Enter()()
			for b.Loop() {
				if err := wait(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
