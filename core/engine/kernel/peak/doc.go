// Package peak measures what a core can do at most.
//
// It imports core/engine/kernel. Start with peak.go.
package peak
