// Package forecast formats what `trainctl plan` prints: everything that is known about a
// run before it starts. The caller fills a [Report]; this package writes it as text, as
// JSON, and as a drawing of the model.
//
// It imports core/base/bytesize and core/base/decimal. Start with report.go.
package forecast
