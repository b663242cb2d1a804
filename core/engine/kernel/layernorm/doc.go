// Package layernorm has the norms of rows: layer norm (layernorm.go) and RMS norm
// (rmsnorm.go), of rows of a few elements (narrow.go), also of half types (half.go).
//
// It imports core/tensor, core/engine/kernel, and below that convert, elementwise, norm and reduce. Start
// with layernorm.go.
package layernorm
