//go:build !amd64

package kernel

// Without assembly the level is Generic, and head never gives work to these.

func vecAdd(a, b, dst []float32)                                        { noVector() }
func vecMul(a, b, dst []float32)                                        { noVector() }
func vecScale(dst []float32, alpha float32)                             { noVector() }
func vecAxpy(dst []float32, alpha float32, src []float32)               { noVector() }
func vecReLU(x, y []float32)                                            { noVector() }
func vecReLUGrad(y, dy, dx []float32)                                   { noVector() }
func runDotTile(t *dotTile)                                             { noVector() }
func runTile(rows int, t *tile)                                         { noVector() }
func vecToF16(src []float32, dst []uint16)                              { noVector() }
func vecFromF16(dst []float32, src []uint16)                            { noVector() }
func vecToBF16(src []float32, dst []uint16)                             { noVector() }
func vecFromBF16(dst []float32, src []uint16)                           { noVector() }
func vecAddF16(dst, src []uint16)                                       { noVector() }
func vecAddBF16(dst, src []uint16)                                      { noVector() }
func vecAccumulateF16(dst []float32, src []uint16)                      { noVector() }
func vecAccumulateBF16(dst []float32, src []uint16)                     { noVector() }
func runAdam(s *adamStep)                                               { noVector() }
func runPoolTile(t *poolTile)                                           { noVector() }
func runNormPoolTile(t *poolTile)                                       { noVector() }
func normPoolSums(vectors int, t *poolGradTile)                         { noVector() }
func normPoolGrad(vectors int, t *poolGradTile)                         { noVector() }
func vecMoments(x []float32, s *planeSize) (mean, diff, square float32) { noVector(); return }
func packAcross(rows int, src *float32, stride, k int, tail laneCount, dst *float32, step int) {
	noVector()
}
func packAlong(k int, src *float32, stride int, n laneCount, dst *float32, step int) { noVector() }
func runAlong(rows, vectors int, t *strip)                                           { noVector() }
func runAcross(rows, vectors int, t *strip)                                          { noVector() }
func vecSum(x []float32) float64                                                     { noVector(); return 0 }
func vecSumSqDiff(x []float32, mean float64) float64                                 { noVector(); return 0 }
func vecSumAndDot(dy, x []float32, mean float64) (sum, dot float64) {
	noVector()
	return 0, 0
}
func vecSGDMomentum(p, g, buf []float32, lr, momentum, undamped, weightDecay float32) { noVector() }
func vecSubMulAdd(x []float32, mean, scale, shift float32, y []float32)               { noVector() }
func vecNormGrad(x, dy []float32, mean, meanDy, slope, scale float32, dx []float32)   { noVector() }

func noVector() { panic("kernel: no vector kernels on this architecture") }
