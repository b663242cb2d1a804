// Package usererr is the one form in which any part of trainctl reports what is
// wrong with a user's input, so that all problems can be shown at once with
// their place and their fix. core/config turns keys into lines and columns.
//
// It imports nothing else of this module. Start with usererr.go.
package usererr
