// Package sourcetest has what the tests of the data sets with downloaded files share.
//
// It imports nothing else of this module. Start with refused.go.
package sourcetest
