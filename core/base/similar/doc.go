// Package similar finds the name that a misspelt one probably means, for the
// suggestions of error messages.
//
// It imports nothing else of this module. Start with similar.go.
package similar
