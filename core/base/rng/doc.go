// Package rng draws the numbers that PyTorch's CPU generator draws, bit for
// bit: a run that starts from a seed here starts where PyTorch would.
//
// It imports nothing else of this module. Start with mt.go.
package rng
