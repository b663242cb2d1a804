//go:build !amd64

package kernel

func vecLevels(dst []float32, src []byte, sums *[5]float32) { noVector() }
func vecNoise(dst []float32, key uint64, scale float32)     { noVector() }
