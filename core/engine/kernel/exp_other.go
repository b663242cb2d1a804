//go:build !amd64

package kernel

func vecLargest(x []float32) float32                           { noVector(); return 0 }
func vecExpSum(x []float32, peak float64, y []float32) float64 { noVector(); return 0 }
func vecSoftmaxGrad(y []float32, sum, wanted, scale float64)   { noVector() }
func vecSigmoid(x, y []float32)                                { noVector() }
func vecTanh(x, y []float32)                                   { noVector() }
