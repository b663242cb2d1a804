// Package api lists what the packages of the compatibility promise export, one line for each part that
// a program can use. Its test compares the list with api.txt: a line that is gone or different would
// break programs. .ci/api compares the types with the last release, if there is one.
//
// It imports nothing else of this module. Start with api.go.
package api
