//go:build !amd64

package elementwise

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecHalfReLU(x, y *uint16, n int) { kernel.NoVectors() }

func vecHalfReLUGrad(y, dy, dx *uint16, n int) { kernel.NoVectors() }

func vecHalfAdd(x, y, sum *uint16, n int) { kernel.NoVectors() }

func vecSigmoid(x, y []float32) { kernel.NoVectors() }

func vecTanh(x, y []float32) { kernel.NoVectors() }

func vecAdd(a, b, dst []float32) { kernel.NoVectors() }

func vecMul(a, b, dst []float32) { kernel.NoVectors() }

func vecScale(dst []float32, alpha float32) { kernel.NoVectors() }

func vecAxpy(dst []float32, alpha float32, src []float32) { kernel.NoVectors() }

func vecReLU(x, y []float32) { kernel.NoVectors() }

func vecReLUGrad(y, dy, dx []float32) { kernel.NoVectors() }
