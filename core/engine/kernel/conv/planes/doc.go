// Package planes computes depthwise convolutions, plane by plane.
//
// It imports core/engine/kernel, and conv/cost and conv/geometry. Start with planes.go.
package planes
