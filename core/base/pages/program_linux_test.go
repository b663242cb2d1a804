//go:build !portable

package pages

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

var written = 1

// The program goes on with fewer of its pages.
func TestGiveBackProgram(t *testing.T) {
	file := privateFile(t, 64*os.Getpagesize())
	touch(file)
	if err := unix.Madvise(file, unix.MADV_DONTNEED); err != nil || present(t, whole(file)) > 0 {
		t.Skip("this kernel takes MADV_DONTNEED and does nothing, as that of qemu-user: ", err)
	}
	parts := readOnly()
	if len(parts) == 0 {
		t.Fatal("the kernel has not said where the program is")
	}
	for _, p := range parts {
		touch(unsafe.Slice(*(**byte)(unsafe.Pointer(&p.from)), p.to-p.from))
	}
	GiveBackProgram()
	for _, p := range parts {
		if all := int(p.to-p.from) / os.Getpagesize(); all > 64 && present(t, p) == all {
			t.Errorf("all %d pages from %x are there", all, p.from)
		}
	}
}

// Code is among what is given back, and what the program writes is not.
func TestReadOnly(t *testing.T) {
	if !covered(reflect.ValueOf(TestReadOnly).Pointer()) {
		t.Error("the code is missing")
	}
	if written++; covered(uintptr(unsafe.Pointer(&written))) {
		t.Error("variables are among it")
	}
}

func covered(address uintptr) bool {
	for _, p := range readOnly() {
		if p.from <= address && address < p.to {
			return true
		}
	}
	return false
}

// A page that was written into is a copy, and what was only read is none.
func TestCopied(t *testing.T) {
	file := privateFile(t, 64*os.Getpagesize())
	touch(file)
	if present(t, whole(file)) == 0 {
		t.Skip("the flags are not those of this process's pages, as under qemu-user")
	}
	if whole(file).copied() {
		t.Error("pages that were only read count as copies")
	}
	if file[len(file)/2] = 1; !whole(file).copied() {
		t.Error("a copy of a page is not seen")
	}
	if beyond := ^uintptr(0) &^ (1<<20 - 1); !(segment{beyond, beyond + 1<<16}).copied() {
		t.Error("pages that the system says nothing about count as the file's")
	}
}

// One touch of a file that the cache has in large pages maps a part of one.
func TestDivide(t *testing.T) {
	advised := privateFile(t, 2*part)
	if err := unix.Madvise(advised[:part], unix.MADV_NOHUGEPAGE); err != nil || !mappingBegins(t, &advised[part]) {
		t.Skip("this kernel does not keep advice about huge pages, as that of qemu-user: ", err)
	}
	file := privateFile(t, 64*part) // written at once
	touch(file)
	if present(t, whole(file)) == 0 {
		t.Skip("the flags are not those of this process's pages, as under qemu-user")
	}
	whole(file).divide()
	if err := unix.Madvise(file, unix.MADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 9*part + 100, 33*part - 1} {
		before := present(t, whole(file))
		sum += file[at]
		if more := (present(t, whole(file)) - before) * os.Getpagesize(); more == 0 || more > part {
			t.Errorf("the byte at %d brings %d bytes", at, more)
		}
	}
}

// mappingBegins tells whether a mapping of this process begins at an address.
func mappingBegins(t *testing.T, address *byte) bool {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("this system has no /proc, which lists a process's mappings: ", err)
	}
	return strings.Contains("\n"+string(maps), fmt.Sprintf("\n%08x-", uintptr(unsafe.Pointer(address))))
}

// privateFile maps a file of so many bytes as the kernel maps programs, but writable.
func privateFile(t *testing.T, size int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	return mem
}

func whole(mem []byte) segment {
	from := uintptr(unsafe.Pointer(&mem[0]))
	return segment{from, from + uintptr(len(mem))}
}

var sum byte

// touch reads something of every page.
func touch(mem []byte) {
	for i := 0; i < len(mem); i += os.Getpagesize() {
		sum += mem[i]
	}
}

// present is how many pages this process has.
func present(t *testing.T, s segment) (n int) {
	t.Helper()
	states, err := s.states()
	if err != nil {
		t.Skip("this system does not say which pages a process has (/proc/self/pagemap): ", err)
	}
	for _, state := range states {
		if state&presentPage != 0 {
			n++
		}
	}
	return n
}
