//go:build !amd64

package conv

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecCopyRuns(rows, n int, src []float32, step int, dst []float32) { kernel.NoVectors() }
func spreadPairs(src, dst []float32)                                  { kernel.NoVectors() }
func pickPairs(src, dst []float32)                                    { kernel.NoVectors() }
