//go:build linux

// Guest is the first process of the virtual machine in which .ci/avx512 tests kernels. It runs the test programs that
// /tests lists, a line for each: the folder that it starts in, the program and its arguments. Whether each passed and, at
// the end, how many failed goes to the console, and then it turns the machine off.
//
// It imports the standard library only. Start with guest_linux.go.
package main
