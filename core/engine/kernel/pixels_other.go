//go:build !amd64

package kernel

func vecLevels(dst []float32, src []byte, sums *[5]float32) { noVector() }
func vecNoise(dst []float32, key uint64, scale float32)     { noVector() }

func vecColours(dst, y, cb, cr []byte)                                 { noVector() }
func vecAcrossPixels(dst, src []byte, first, weight []int32, taps int) { noVector() }
func vecDownPixels(dst, src []byte, stride int, weight []int32)        { noVector() }
func vecChannel(dst []float32, pixels []byte, c int, sums *[5]float32) { noVector() }
