//go:build !amd64

package kernel

// Without assembly HasBF16 is false, and nothing calls these.

func packPairs(pairs int, even, odd *uint16, stride int, n laneCount, dst *float32, step int) {
	noVector()
}
func runPairMultiplyAdds(rounds int)   { noVector() }
func runPairTile(rows int, t *tile)    { noVector() }
func runRoundedTile(rows int, t *tile) { noVector() }
func runPairDots(t *dotTile)           { noVector() }
func halfPlanesToLanes(rows int, src *uint16, plane, width int, n laneCount, dst *float32, stride, ahead int) {
	noVector()
}
func lanesToHalfPlanes(rows int, src *float32, stride int, bias *float32, dst *uint16, plane, width int, n laneCount) {
	noVector()
}
func vecHalfMoments(x *uint16, vectors int, tail laneCount, inverse float32, ahead int) (mean, diff, square float32) {
	noVector()
	return
}
func runHalfPool(rows int, t *halfPool)             { noVector() }
func runHalfPoolSums(rows int, t *halfPoolGrad)     { noVector() }
func runHalfPoolGrad(rows int, t *halfPoolGrad)     { noVector() }
func vecHalfReLU(x, y *uint16, n int)               { noVector() }
func vecHalfReLUGrad(y, dy, dx *uint16, n int)      { noVector() }
func vecHalfAdd(x, y, sum *uint16, n int)           { noVector() }
func vecGateRow(x *float32, gate, y *uint16, n int) { noVector() }
func vecFinishRow(x, bias *float32, biasStep int, floor float32, y *uint16, n int) {
	noVector()
}
func vecHalfNorm(x, residual *uint16, residualStep int, mean, scale, shift, floor float32, y *uint16, pairs int) {
	noVector()
}
func vecHalfNormSums(x, dy, gate *uint16, gateStep int, mean float32, pairs, ahead int) (sum, dot float32) {
	noVector()
	return
}
func vecHalfNormGrad(x, dy, gate *uint16, gateStep int, scale, slope, offset float32, dx *uint16, pairs int) {
	noVector()
}
