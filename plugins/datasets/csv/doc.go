// Package csv serves tables of numbers and labels from CSV files (RFC 4180): columns by name
// as inputs, and classes or numbers as targets.
//
// It imports core/base/similar, core/base/usererr, core/sdk, core/tensor and plugins/datasets/samples. Start with csv.go.
package csv
