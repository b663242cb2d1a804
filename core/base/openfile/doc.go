// Package openfile opens files whose size or mode decides how they are read.
//
// It imports nothing else of this module. Start with openfile.go.
package openfile
