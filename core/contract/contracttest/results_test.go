package contracttest_test

import (
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/contract/contracttest"
	"github.com/trainctl/trainctl/core/tensor"
)

// after has what three ranks hold after a collective over one element, or one
// for each rank, of 1, 2, 3 times 1 on rank 0, 10 on rank 1, 100 on rank 2. Root is 1; -1 is unspecified.
var after = map[contract.Op][][]float32{
	contract.OpAllReduce:     {{111}, {111}, {111}},
	contract.OpBroadcast:     {{10}, {10}, {10}},
	contract.OpAllGather:     {{1, 20, 300}, {1, 20, 300}, {1, 20, 300}},
	contract.OpReduceScatter: {{111, -1, -1}, {-1, 222, -1}, {-1, -1, 333}},
	contract.OpReduce:        {{-1}, {111}, {-1}},
}

// The definitions of collectives are held to results that are written out, so
// that backends and the suite, which both read them, cannot have the same mistake.
func TestDefinitionsMeanWhatTheFieldMeans(t *testing.T) {
	for _, op := range contract.Ops() {
		if op.Definition().Kind != contract.OfGroup {
			continue
		}
		want := after[op]
		if want == nil {
			t.Errorf("%v: add what three ranks hold after it", op)
			continue
		}
		c := contract.Call{Op: op, Reduce: contract.Sum, DType: tensor.F32, Count: 1, Root: 1}
		bufs := [][]byte{}
		for _, scale := range []float32{1, 10, 100} {
			bufs = append(bufs, tensor.Bytes([]float32{scale, 2 * scale, 3 * scale}[:c.Size(3)/4]))
		}
		for rank, buf := range contracttest.Results(&c, bufs) {
			got := tensor.View[float32](buf)
			if len(got) != len(want[rank]) {
				t.Fatalf("%v: a buffer of %d elements, want %d", op, len(got), len(want[rank]))
			}
			specified := tensor.View[float32](contracttest.Result(&c, rank, buf))
			if w := slices.DeleteFunc(slices.Clone(want[rank]), func(x float32) bool { return x < 0 }); !slices.Equal(specified, w) {
				t.Errorf("%v: rank %d ends with %v, want %v", op, rank, specified, w)
			}
		}
	}
}
