//go:build !amd64

package kernel

func vecCopyRuns(rows, n int, src []float32, step int, dst []float32) { noVector() }
func spreadPairs(src, dst []float32)                                  { noVector() }
func pickPairs(src, dst []float32)                                    { noVector() }
