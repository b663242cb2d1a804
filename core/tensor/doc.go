// Package tensor has the common types for data in memory: element types, shapes, and
// views of plain bytes.
//
// It imports nothing else of this module. Start with tensor.go.
package tensor
