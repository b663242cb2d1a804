//go:build !amd64

package conv

import "github.com/trainctl/trainctl/core/engine/kernel"

func dataToPoints(pixels, points int, t *transform) { kernel.NoVectors() }
func filterToPoints(n, points int, t *transform)    { kernel.NoVectors() }
func pointsTo(points, n int, t *transform)          { kernel.NoVectors() }
func pointRows(vecs int, t *pointTile)              { kernel.NoVectors() }
func pointCols(vecs int, t *pointTile)              { kernel.NoVectors() }
func planesToLanes(rows int, src *float32, plane, width int, n kernel.Mask, dst *float32, stride, ahead int) {
	kernel.NoVectors()
}
func lanesToPlanes(rows int, src *float32, stride int, bias, dst *float32, plane, width int, n kernel.Mask) {
	kernel.NoVectors()
}
func lanesOntoPlanes(rows int, src *float32, stride int, dst *float32, plane, width int, n kernel.Mask) {
	kernel.NoVectors()
}

func halfPlanesToLanes(rows int, src *uint16, plane, width int, n kernel.Mask, dst *float32, stride, ahead int) {
	kernel.NoVectors()
}

func lanesToHalfPlanes(rows int, src *float32, stride int, bias *float32, dst *uint16, plane, width int, n kernel.Mask) {
	kernel.NoVectors()
}
