// Package convert rewrites elements of one float type as those of another.
//
// It imports core/tensor and core/engine/kernel. Start with convert.go.
package convert
