// Package pattern compiles regular expressions when they are first used. An executable runs as launcher, rank and
// plugins, and most of these need few of its expressions.
//
// It imports nothing else of this module. Start with pattern.go.
package pattern
