// Package system names the operating systems that trainctl runs on: Linux and
// macOS. Packages that need memory shared between processes, file locks or
// signals of Unix import it for its effect, so that a build for Windows stops
// with one sentence that says what to do, and not with a page of missing names.
//
// It imports nothing. It consists of this file and the sentence in windows.go.
package system
