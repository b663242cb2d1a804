//go:build !portable

package pages

import (
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// GiveBackProgram gives back the pages of the program's code and constants, for a process that has started: starting
// touches most of them, and what runs from then on a few. The kernel has them in its cache, from which it maps them again
// where the process goes on, a part at a time.
func GiveBackProgram() {
	parts := readOnly()
	divided.Do(func() {
		for _, s := range parts {
			s.divide()
		}
	})
	for _, s := range parts {
		if !s.copied() {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, s.from, s.to-s.from, unix.MADV_DONTNEED) // else they stay
		}
	}
}

var divided sync.Once

// part is how much Linux maps where one page is touched, if the cache has the file in small pages.
const part = 64 << 10

// divide keeps one touch from mapping more than a part. Where the cache has the file in pages of up to 2 MiB, as a file
// just written, Linux maps the whole of one that a single mapping has whole (6.18, also without huge pages). Mappings
// with different advice are different ones, so every other part is advised against huge pages, of which there are none then.
func (s segment) divide() {
	for from := s.from; from < s.to; from += 2 * part {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, min(part, s.to-from), unix.MADV_NOHUGEPAGE) // else it maps more
	}
}

// segment is a part of the address space, of whole pages.
type segment struct{ from, to uintptr }

// programHeader describes a part of a program to the kernel that loads it (ELF-64, Elf64_Phdr).
type programHeader struct {
	kind, flags                                            uint32
	offset, address, physical, fileSize, memorySize, align uint64
}

const (
	loadedPart   = 1 // PT_LOAD
	headersPart  = 6 // PT_PHDR: the headers themselves
	writableFlag = 2 // PF_W
)

// readOnly are the parts of this program that are loaded to be read and run only. Parts that a loader makes read-only
// after it has written them are not among them.
func readOnly() (parts []segment) {
	headers := programHeaders()
	for _, self := range headers {
		if self.kind != headersPart {
			continue
		}
		moved := uintptr(unsafe.Pointer(&headers[0])) - uintptr(self.address) // of position-independent programs
		last := uintptr(os.Getpagesize()) - 1
		for _, h := range headers {
			if h.kind == loadedPart && h.flags&writableFlag == 0 {
				from := moved + uintptr(h.address)
				parts = append(parts, segment{from &^ last, (from + uintptr(h.memorySize) + last) &^ last})
			}
		}
	}
	return parts
}

// programHeaders are where the kernel tells every process that its program's are; nil if it does not.
func programHeaders() []programHeader {
	const address, size, count = 3, 4, 5 // AT_PHDR, AT_PHENT, AT_PHNUM
	vector, err := unix.Auxv()
	if err != nil {
		return nil
	}
	var value [count + 1]uintptr
	for _, v := range vector {
		if v[0] <= count {
			value[v[0]] = v[1]
		}
	}
	if value[address] == 0 || value[size] != unsafe.Sizeof(programHeader{}) {
		return nil
	}
	return unsafe.Slice(*(**programHeader)(unsafe.Pointer(&value[address])), value[count])
}

// copied reports whether some page is not the file's but a copy of it, as a debugger makes one to set a breakpoint: giving
// it back would remove the breakpoint. Where the system does not say, all are.
func (s segment) copied() bool {
	states, err := s.states()
	for _, state := range states {
		if state&(presentPage|swappedPage) != 0 && state&filePage == 0 {
			return true
		}
	}
	return err != nil
}

// Flags of /proc/PID/pagemap.
const presentPage, swappedPage, filePage = 1 << 63, 1 << 62, 1 << 61

// states are the flags of every page.
func (s segment) states() ([]uint64, error) {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	page := uintptr(os.Getpagesize())
	states := make([]uint64, (s.to-s.from)/page)
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(states))), 8*len(states))
	_, err = f.ReadAt(bytes, int64(s.from/page*8))
	return states, err
}
