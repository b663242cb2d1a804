// Package appendfile writes the files of a run that lines or records are added
// to, through times in which nothing can be written: a full disk that somebody
// makes room on. Nothing is written by halves, and the file says what is missing.
//
// It imports nothing else of this module. Start with appendfile.go.
package appendfile
