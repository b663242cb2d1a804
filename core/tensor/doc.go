// Package tensor holds what every layer of trainctl agrees on about data in
// memory: element types, shapes, and views of plain bytes.
//
// It imports nothing else of this module. Start with tensor.go.
package tensor
