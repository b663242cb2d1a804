//go:build !portable

package pages

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory gets its pages, and keeps what it contains.
func TestPopulate(t *testing.T) {
	page := os.Getpagesize()
	size := 2*populated + 3*page
	whole, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(whole)
	if err := unix.Madvise(whole[:page], unix.MADV_POPULATE_WRITE); err != nil {
		t.Skip("this kernel has no MADV_POPULATE_WRITE: ", err)
	}
	if !resident(t, whole)[0] {
		t.Skip("this kernel takes MADV_POPULATE_WRITE and does nothing, as that of qemu-user")
	}
	whole[100], whole[size-1] = 7, 9
	give(whole[64 : size-64])
	for i, there := range resident(t, whole)[:size/page-1] {
		if !there {
			t.Fatalf("page %d of %d is not there", i, size/page)
		}
	}
	if whole[100] != 7 || whole[size-1] != 9 {
		t.Error("the content has changed")
	}
	give(whole[10:20]) // less than a page
}

// resident tells which pages of memory are there.
func resident(t *testing.T, memory []byte) []bool {
	t.Helper()
	state := make([]byte, len(memory)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&memory[0])), uintptr(len(memory)), uintptr(unsafe.Pointer(&state[0]))); errno != 0 {
		t.Fatal(errno)
	}
	there := make([]bool, len(state))
	for i, s := range state {
		there[i] = s&1 != 0
	}
	return there
}
