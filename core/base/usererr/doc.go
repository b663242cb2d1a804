// Package usererr has the error type with which all parts of trainctl report mistakes
// in a user's input, so that all problems can be shown at once with their place and
// their fix. core/config adds lines and columns to the keys.
//
// It imports nothing else of this module. Start with usererr.go.
package usererr
