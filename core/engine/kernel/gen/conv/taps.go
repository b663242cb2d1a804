package conv

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// tapSums emits sums over pixels of x, shifted by some taps of a filter's row, times dy,
// whose channels lie in lanes: the products of Winograd's weight gradient with taps, which
// lie side by side as pixels do, for rows.
func tapSums(a *isa.Asm) {
	for _, shape := range [][2]int{{3, 1}, {3, 2}, {4, 1}, {5, 1}, {6, 1}} {
		pointTile(a, fmt.Sprintf("tapSums%dx%d", shape[0], shape[1]), 4, 4, shape[0], shape[1], 2)
	}
}
