package custom

import (
	"sync"

	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
	"github.com/trainctl/trainctl/core/tensor"
)

// The kernels of the built-in layers, for functions of one's own. Slices of a call have equal lengths unless a
// function says otherwise. Where the processor has vectors, float32 is computed in them.

// Sigmoid sets y to 1/(1+exp(−x)). x and y may be the same.
func Sigmoid[T Number](x, y []T) { elementwise.Sigmoid(x, y) }

// Tanh sets y to the hyperbolic tangent of x. x and y may be the same.
func Tanh[T Number](x, y []T) { elementwise.Tanh(x, y) }

// Mul sets y to the products of the elements of a and b. y may be a or b.
func Mul[T Number](a, b, y []T) { elementwise.Mul(a, b, y) }

// Axpy adds alpha·x to y.
func Axpy[T Number](y []T, alpha T, x []T) { elementwise.Axpy(y, alpha, x) }

// MatMul sets c [m, n], or adds to it, the product of op(a) [m, k] and op(b) [k, n]. Matrices are row-major without gaps; with
// transA, a is the transpose of op(a), [k, m], and with transB b that of op(b), [n, k]. c shares no memory with a and b.
func MatMul[T Number](transA, transB bool, m, n, k int, a, b []T, add bool, c []T) {
	lda, ldb, beta := k, n, T(0)
	if transA {
		lda = m
	}
	if transB {
		ldb = k
	}
	if add {
		beta = 1
	}
	need := gemm.GemmScratch(m, n, k)
	bytes := scratch.Get().(*[]byte)
	if size := need * 8; len(*bytes) < size {
		*bytes = tensor.Aligned(size)
	}
	gemm.Gemm(transA, transB, m, n, k, 1, a, lda, b, ldb, beta, c, n, tensor.View[T](*bytes)[:need])
	scratch.Put(bytes)
}

// scratch is memory of products.
var scratch = sync.Pool{New: func() any { return new([]byte) }}
