package attention

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The edges of a tile of scores: together with its operands it stays in a core's cache.
const (
	tileQueries = 64
	tileKeys    = 128
)

// Head is the geometry of one head.
type Head struct {
	Queries, Keys int     // positions
	Dim           int     // elements of a query, a key and a value
	Causal        bool    // query i attends to keys 0 to First + i
	First         int     // position of the first query, where keys of earlier positions are kept
	Rotary        bool    // there are rotary positions
	Dropout       Dropout // of the softmax's probabilities
}

// Dropout zeroes probabilities; the mask of query i and key j is number
// First + i·RowLen + j of the stream.
type Dropout struct {
	P            float64 // probability of a zero; 0: none
	Seed, Stream uint64
	First        uint64
}

// RowLen is how many numbers of the dropout's stream belong to a query.
func (h *Head) RowLen() int { return (h.Keys + 3) / 4 * 4 }

// Rows are a head's vectors, one for each position: element j of position t is
// Data[t·Stride+j].
type Rows[T kernel.Float] struct {
	Data   []T
	Stride int
}

// from are the rows behind the first n.
func (r Rows[T]) from(n int) []T { return r.Data[n*r.Stride:] }

// From are the rows behind the first n.
func (r Rows[T]) From(n int) Rows[T] { return Rows[T]{r.from(n), r.Stride} }

func (r Rows[T]) row(t, dim int) []T { return r.Data[t*r.Stride:][:dim] }

// tile is a part of the scores.
type tile struct {
	q, queries int // the first query, and how many
	k, keys    int
}

// tiles calls f for the tiles that a query attends to, keys outside if byKeys.
func (h *Head) tiles(f func(t tile), byKeys bool) {
	one := func(q, k int) {
		t := tile{q, min(tileQueries, h.Queries-q), k, min(tileKeys, h.Keys-k)}
		if h.Causal {
			t.keys = min(t.keys, h.First+q+t.queries-k)
		}
		if t.keys > 0 {
			f(t)
		}
	}
	if byKeys {
		for k := 0; k < h.Keys; k += tileKeys {
			for q := 0; q < h.Queries; q += tileQueries {
				one(q, k)
			}
		}
		return
	}
	for q := 0; q < h.Queries; q += tileQueries {
		for k := 0; k < h.Keys; k += tileKeys {
			one(q, k)
		}
	}
}

// seen is how many keys of a tile its query i attends to.
func (h *Head) seen(t tile, i int) int {
	if !h.Causal {
		return t.keys
	}
	return max(0, min(t.keys, h.First+t.q+i+1-t.k))
}

func (h *Head) scale() float64 { return 1 / math.Sqrt(float64(h.Dim)) }

// gemmScratch is enough for every product of a tile.
func (h *Head) gemmScratch() int {
	q, k := min(tileQueries, h.Queries), min(tileKeys, h.Keys)
	return max(gemm.GemmScratch(q, k, h.Dim), gemm.GemmScratch(q, h.Dim, k), gemm.GemmScratch(k, h.Dim, q))
}

// room hands out parts of a scratch.
type room[T kernel.Float] []T

func (r *room[T]) take(n int) []T {
	const line = 16
	part := (*r)[:n]
	*r = (*r)[(n+line-1)/line*line:]
	return part
}

// padded is the room that takes of these sizes need.
func padded(sizes ...int) (sum int) {
	for _, n := range sizes {
		sum += (n + 15) / 16 * 16
	}
	return sum
}

// Zero clears n rows of dim elements.
func (r Rows[T]) Zero(n, dim int) {
	for t := range n {
		clear(r.row(t, dim))
	}
}
