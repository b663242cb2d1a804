//go:build !amd64

package random

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecNoise(dst []float32, key uint64, scale float32) { kernel.NoVectors() }
