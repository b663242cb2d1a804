// Package appendfile appends lines or records to the files of a run and survives
// failed writes, such as on a full disk: it continues when writing works again.
// It never leaves a partial line, and writes how many lines are missing.
//
// It imports nothing else of this module. Start with appendfile.go.
package appendfile
