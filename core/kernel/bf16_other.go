//go:build !amd64

package kernel

// Without assembly HasBF16 is false, and nothing calls these.

func packPairs(pairs int, even, odd *uint16, stride int, n laneCount, dst *float32, step int) {
	noVector()
}
func vecRound(src *float32, dst *uint16, n int) { noVector() }
func runPairTile(rows int, t *tile)             { noVector() }
