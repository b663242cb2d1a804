//go:build !amd64

package convert

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecToF16(src []float32, dst []uint16) { kernel.NoVectors() }

func vecFromF16(dst []float32, src []uint16) { kernel.NoVectors() }

func vecToBF16(src []float32, dst []uint16) { kernel.NoVectors() }

func vecFromBF16(dst []float32, src []uint16) { kernel.NoVectors() }
