// Package race tells whether the program was built with the race detector.
//
// It imports nothing. Start with on.go.
package race
