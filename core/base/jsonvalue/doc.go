// Package jsonvalue gives JSON numbers the types that a TOML decoder gives them,
// so that options have the same types whichever way they came.
//
// It imports nothing else of this module. Start with jsonvalue.go.
package jsonvalue
