package move

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// Every permutation of several shapes, element by element.
func TestPermute(t *testing.T) {
	kerneltest.AtEachLevel(t, testPermute)
}

func testPermute(t *testing.T) {
	for _, shape := range [][]int{{7}, {1, 1}, {3, 5}, {37, 41}, {8, 9}, {16, 7}, {12, 16}, {33, 64}, {2, 3, 4}, {3, 1, 5, 2}, {2, 20, 17, 3}} {
		orders(len(shape), func(dims []int) {
			n := 1
			for _, s := range shape {
				n *= s
			}
			src, got, want := make([]uint32, n), make([]uint32, n), make([]uint32, n)
			for i := range src {
				src[i] = uint32(i)
				at := make([]int, len(shape))
				for d, rest := len(shape)-1, i; d >= 0; d-- {
					at[d], rest = rest%shape[d], rest/shape[d]
				}
				to := 0
				for _, d := range dims {
					to = to*shape[d] + at[d]
				}
				want[to] = uint32(i)
			}
			if Permute(NewPermutation(shape, dims), got, src); !slices.Equal(got, want) {
				t.Errorf("%v of %v", dims, shape)
			}
		})
	}
}

func orders(n int, use func([]int)) {
	var next func(sofar []int)
	next = func(sofar []int) {
		if len(sofar) == n {
			use(sofar)
			return
		}
		for d := range n {
			if !slices.Contains(sofar, d) {
				next(append(slices.Clone(sofar), d))
			}
		}
	}
	next(nil)
}

func TestRows(t *testing.T) {
	dst, src := []byte("..........."), []byte("abcdefgh")
	Rows(3, 2, dst[1:], 4, src, 3)
	Rows(2, 1, dst, 5, nil, 0)
	if want := "\x00ab..\x00e..gh"; string(dst) != want {
		t.Errorf("%q, want %q", dst, want)
	}
}

func BenchmarkTranspose(b *testing.B) {
	for _, s := range [][3]int{{64, 96, 96}, {64, 49, 192}, {64, 192, 49}, {16, 96, 3136}} {
		p := NewPermutation(s[:], []int{0, 2, 1})
		src, dst := make([]uint32, s[0]*s[1]*s[2]), make([]uint32, s[0]*s[1]*s[2])
		b.Run(fmt.Sprint(s), func(b *testing.B) {
			kerneltest.BenchBandwidth(b, 8*len(src), func() { Permute(p, dst, src) })
		})
	}
}
