//go:build !portable

package cpu

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
	whole[100], whole[size-1] = 7, 9
	givePages(whole[64 : size-64])
	resident := make([]byte, size/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&whole[0])), uintptr(size), uintptr(unsafe.Pointer(&resident[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for i, r := range resident[1 : len(resident)-1] {
		if r&1 == 0 {
			t.Fatalf("page %d of %d is not there", i+1, len(resident))
		}
	}
	if whole[100] != 7 || whole[size-1] != 9 {
		t.Error("the content has changed")
	}
	givePages(whole[10:20]) // less than a page
}
