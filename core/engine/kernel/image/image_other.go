//go:build !amd64

package image

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecLevels(dst []float32, src []byte, sums *[5]float32) { kernel.NoVectors() }

func vecColours(dst, y, cb, cr []byte)                                 { kernel.NoVectors() }
func vecAcrossPixels(dst, src []byte, first, weight []int32, taps int) { kernel.NoVectors() }
func vecDownPixels(dst, src []byte, stride int, weight []int32)        { kernel.NoVectors() }
func vecChannel(dst []float32, pixels []byte, c int, sums *[5]float32) { kernel.NoVectors() }
