// Package pairs compares two sides of a measurement, which are measured in turn.
//
// It imports nothing of this repository. Start with pairs.go.
package pairs
