// Package forecast is what `trainctl plan` prints: everything that can be known
// about a run before it starts. Whoever builds the plan fills a [Report]; the
// renderings for people and programs are here.
//
// It imports nothing else of this module. Start with report.go.
package forecast
