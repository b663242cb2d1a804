//go:build !amd64

package kernel

func dataToPoints(pixels, points int, t *transform) { noVector() }
func filterToPoints(n, points int, t *transform)    { noVector() }
func pointsTo(points, n int, t *transform)          { noVector() }
func pointRows(vecs int, t *pointTile)              { noVector() }
func pointCols(vecs int, t *pointTile)              { noVector() }
func planesToLanes(rows int, src *float32, plane, width int, n laneCount, dst *float32, stride, ahead int) {
	noVector()
}
func lanesToPlanes(rows int, src *float32, stride int, bias, dst *float32, plane, width int, n laneCount) {
	noVector()
}
func lanesOntoPlanes(rows int, src *float32, stride int, dst *float32, plane, width int, n laneCount) {
	noVector()
}
