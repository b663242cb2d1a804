// Package pages lets the kernel give memory its pages in the background, before a run's first
// step touches them one by one, take back what getting ready took, and make huge pages of memory
// that is passed over many times.
//
// It imports no package of this module. Start with pages_linux.go; settle.go is what gives back,
// program_linux.go the program's own pages, huge_linux.go huge pages.
package pages
