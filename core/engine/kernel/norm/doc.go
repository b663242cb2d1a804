// Package norm has batch norm (batchnorm.go; of features, columns.go; of small planes, pixels.go, and of those of half types, pixels_half.go) and group norm
// (groupnorm.go, of half types groupnorm_half.go), and batch norm in one pass with what follows it: ReLU (normrelu.go), another function of one element (function.go), or ReLU and max pooling (normpool.go). The files named
// bf16 are for images of bfloat16.
//
// It imports core/tensor, core/engine/kernel, and below that elementwise, pool and reduce
// (core/engine/kernel). Start with batchnorm.go.
package norm
