// Package fetch downloads a fixed set of files from the first mirror that works, and
// keeps a file only if it has exactly the expected content.
//
// The caller takes the [Lock] of the folder, which local ranks share; looks again
// whether the files have appeared; and then calls [Fetcher.Fetch].
//
// A file is downloaded to NAME.part, which a later attempt continues, and gets its
// name only after its MD5 matched. After a wrong sum, a response that is not the
// file, an error status or a stalled connection, the next mirror is tried.
//
// It imports nothing else of this module. Start with fetch.go.
package fetch
