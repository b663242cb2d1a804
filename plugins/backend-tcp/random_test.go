package tcp

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
	"github.com/trainctl/trainctl/core/tensor"
)

const randomArena = 600 << 10 // the longest float64 buffer at the largest offset

// For any world size, ranks on hosts in any order, options and sequence of calls, every rank gets the exact
// sum in rank order, or for algorithms with another order, the same on all ranks.
func TestRandomGroups(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		world := rapid.IntRange(1, 8).Draw(rt, "world")
		where := rapid.StringOfN(rapid.RuneFrom([]rune("aaab")), world, world, -1).Draw(rt, "hosts")
		o := sdk.Options{
			"shm":           rapid.Bool().Draw(rt, "shm"),
			"algorithm":     rapid.SampledFrom(append([]string{algorithmAuto, algorithmAuto}, anyOrder...)).Draw(rt, "algorithm"),
			"segment_bytes": int64(rapid.SampledFrom([]int{4096, 4160, 65536}).Draw(rt, "segment")),
			"connections":   int64(rapid.IntRange(1, 3).Draw(rt, "connections")),
			"reproducible":  rapid.Bool().Draw(rt, "reproducible"),
		}
		all, arenas := ranksOf(t, world, randomArena, o, func() *Backend { return onHosts(where) })
		defer func() { // the next draw has another group
			for r := range all {
				all[r].Close()
				arenas[r].Close()
			}
		}()
		for seq := 1; seq <= 4; seq++ {
			draw(rt, world, seq).check(rt, all, arenas)
		}
	})
}

// randomCall is one all-reduce of all ranks.
type randomCall struct {
	sdk.Collective
	private []bool // by rank: its buffer lies outside the arena
	inputs  [][]byte
}

func draw(rt *rapid.T, world, seq int) *randomCall {
	c := &randomCall{Collective: sdk.Collective{
		Seq: uint64(seq), Op: sdk.OpAllReduce, Bucket: seq % 3,
		DType:  rapid.SampledFrom([]tensor.DType{tensor.F32, tensor.F64, tensor.BF16, tensor.F16, tensor.I16}).Draw(rt, "dtype"),
		Reduce: rapid.SampledFrom([]sdk.ReduceOp{sdk.Sum, sdk.Max}).Draw(rt, "reduce"),
		Count:  rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 70_000)).Draw(rt, "count"),
	}}
	c.Offset = 64 * rapid.IntRange(0, 3).Draw(rt, "offset") // equal on all ranks or not, as memory falls
	c.private = rapid.SliceOfN(rapid.Bool(), world, world).Draw(rt, "private")
	salt := rapid.Uint32().Draw(rt, "values")
	for range world {
		in := tensor.Aligned(c.Count * c.DType.Size())
		for i := range in {
			salt = salt*1664525 + 1013904223
			in[i] = byte(salt>>24) & 0x3f // every type is finite, of both parities, and far from its limits
		}
		c.inputs = append(c.inputs, in)
	}
	return c
}

func (c *randomCall) check(rt *rapid.T, all []*Backend, arenas []*sdk.Arena) {
	world := len(all)
	bufs := make([][]byte, world)
	err := together(world, func(r int) error {
		k := c.Collective
		if c.private[r] {
			k.Buf, k.Offset = tensor.Aligned(len(c.inputs[r])), 0
		} else {
			k.Arena, k.Buf = arenas[r], arenas[r].Bytes()[k.Offset:][:len(c.inputs[r]):len(c.inputs[r])]
		}
		copy(k.Buf, c.inputs[r])
		bufs[r] = k.Buf
		if err := all[r].Do(rt.Context(), &k); err != nil {
			return fmt.Errorf("rank %d: %w", r, err)
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
	want := make([]byte, len(c.inputs[0]))
	membackend.Reduce(c.Reduce, c.DType, want, c.inputs)
	for r := range bufs {
		if !bytes.Equal(bufs[r], bufs[0]) {
			rt.Fatalf("%v: ranks 0 and %d of %d have different bits", &c.Collective, r, world)
		}
	}
	sent := c.Collective
	sent.Buf = bufs[0] // what is cheapest depends on it
	a, hosts := all[0].algorithmName(&sent), all[0].topology.hosts()
	anyOrder := a != algorithmDirect && a != algorithmMesh || hosts < world && all[0].partial(&sent)
	if anyOrder && c.Reduce == sdk.Sum && c.DType.Float() {
		return
	}
	if !bytes.Equal(bufs[0], want) {
		rt.Fatalf("%v, %d ranks: not the sum in rank order", &c.Collective, world)
	}
}
