// Package durable makes files and the entries of directories survive a power loss: a file
// that was created or renamed is found again only once its directory is synced.
//
// It imports nothing else of this module. Start with durable.go.
package durable
