// Package fetch downloads a fixed set of files from the first mirror that
// works, and keeps nothing that is not exactly the expected content.
//
// The caller's duties, in order: take the [Lock] of the folder (local ranks
// share it), look again whether the files have appeared, then call
// [Fetcher.Fetch].
//
// A file arrives as NAME.part, which a later attempt continues, and gets its
// name only after its MD5 matched. A wrong sum, an answer that is not the
// file, a refusal or a connection that stays silent moves on to the next mirror.
//
// It imports nothing else of this module. Start with fetch.go.
package fetch
