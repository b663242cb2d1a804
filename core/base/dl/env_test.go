//go:build linux && (amd64 || (arm64 && gpu)) && !nogpu

package dl

import (
	"os"
	"testing"
	"unsafe"
)

// environment is the name of a variable, in C's form, where C can read it.
var environment = []byte("TRAINCTL_TEST_C_ENVIRONMENT\x00")

// A variable that this process sets for itself is seen by libraries, which ask
// the C library and not Go.
func TestLibrariesSeeWhatTheProcessSets(t *testing.T) {
	c, err := Open("libc.so.6")
	if err != nil {
		t.Skipf("needs glibc, whose environment this is about: %v", err)
	}
	name := environment
	seen := func() bool { return Call(c.Symbol("getenv"), 1, Words{uintptr(unsafe.Pointer(&name[0]))}) != 0 }
	if seen() {
		t.Fatal("the variable is there before it was set")
	}
	t.Setenv(string(name[:len(name)-1]), "1")
	if !seen() {
		t.Error("the C library does not see the variable")
	}
	if err := os.Unsetenv(string(name[:len(name)-1])); err != nil || seen() {
		t.Errorf("the C library still sees it: %v", err)
	}
}
