// Package bytesize writes numbers of bytes in binary units, for messages and
// tables.
//
// It imports nothing else of this module. Start with bytesize.go.
package bytesize
