// Package pages lets the kernel give memory its pages in the background, before a run's first
// step touches them one by one, and take back what getting ready took.
//
// It imports no package of this module. Start with pages_linux.go; settle.go is what gives back,
// program_linux.go the program's own pages.
package pages
