//go:build !amd64

package kernel

// Without assembly HasBF16 is false, and nothing calls these.

func packPairs(pairs int, even, odd *uint16, stride int, n laneCount, dst *float32, step int) {
	noVector()
}
func vecRound(src *float32, dst *uint16, n int) { noVector() }
func runPairTile(rows int, t *tile)             { noVector() }
func dataTo11(t *transform)                     { noVector() }
func filterTo11(n int, t *transform)            { noVector() }
func from11To(n int, t *transform)              { noVector() }
func halfPlanesToLanes(rows int, src *uint16, plane, width int, n laneCount, dst *float32, stride int) {
	noVector()
}
func lanesToHalfPlanes(rows int, src *float32, stride int, bias *float32, dst *uint16, plane, width int, n laneCount) {
	noVector()
}
