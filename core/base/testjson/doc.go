// Package testjson reads the JSON files that tests compare results with. Nothing but
// tests imports it.
//
// It imports nothing else of this module. Start with testjson.go.
package testjson
