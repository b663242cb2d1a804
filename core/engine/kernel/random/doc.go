// Package random makes numbers that follow from a key and a counter, so that any of
// them can be had alone and work can be split anywhere: Philox for dropout, SplitMix64
// for noise.
//
// It imports core/engine/kernel. Start with philox.go.
package random
