// Package layernorm has the norms of rows: layer norm (layernorm.go) and RMS norm
// (rmsnorm.go).
//
// It imports core/engine/kernel, and below that elementwise, norm and reduce. Start with
// layernorm.go.
package layernorm
