package gemm

import "github.com/trainctl/trainctl/core/engine/kernel"

// gemmRef is the definition of Gemm. Each element's products are added in the order of k.
func gemmRef[T kernel.Float](transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	ai, ak := lda, 1
	if transA {
		ai, ak = 1, lda
	}
	bk, bj := ldb, 1
	if transB {
		bk, bj = 1, ldb
	}
	for i := range m {
		for j := range n {
			var sum T
			for l := range k {
				sum += a[i*ai+l*ak] * b[l*bk+j*bj]
			}
			sum *= alpha
			if beta != 0 {
				sum += beta * c[i*ldc+j]
			}
			c[i*ldc+j] = sum
		}
	}
}
