//go:build !portable

package pages

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory is in huge pages, but for its ends, and keeps what it contains and what is written meanwhile.
func TestJoin(t *testing.T) {
	if !hugePagesAllowed() {
		t.Skip("this system has no huge pages, or pages of another size than 4 KiB: ", thp)
	}
	whole, err := unix.Mmap(-1, 0, 5*hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(whole)
	if err := unix.Madvise(whole, unix.MADV_NOHUGEPAGE); err != nil { // where every mapping may have huge pages from the start
		t.Fatal(err)
	}
	for i := 0; i < len(whole); i += 512 {
		whole[i] = byte(i >> 9)
	}
	if err := unix.Madvise(whole, unix.MADV_HUGEPAGE); err != nil {
		t.Fatal(err)
	}
	if err := unix.Madvise(whole[aligned(whole):][:hugePage], unix.MADV_COLLAPSE); err == unix.EINVAL {
		t.Skip("this kernel has no MADV_COLLAPSE: ", err)
	}
	was := huge(t, whole) // the first of the huge pages, and what mappings beside have
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		Join(whole[64 : len(whole)-64])
	}()
	for written := byte(0); ; written++ {
		for i := 1; i < len(whole); i += 4096 {
			if i > 1 && written > 0 && whole[i] != written-1 {
				t.Fatalf("byte %d is %d, and %d was written", i, whole[i], written-1)
			}
			whole[i] = written
		}
		select {
		case <-joined:
		default:
			continue
		}
		break
	}
	if now := huge(t, whole); now < was+2*hugePage {
		t.Errorf("%d bytes are in huge pages, want %d more than the %d before", now, 2*hugePage, was)
	}
	for i := 0; i < len(whole); i += 512 {
		if whole[i] != byte(i>>9) {
			t.Fatalf("byte %d is %d, and was %d", i, whole[i], byte(i>>9))
		}
	}
	Join(whole[:100]) // less than a huge page
}

func aligned(mem []byte) int { return int(-uintptr(unsafe.Pointer(&mem[0])) & (hugePage - 1)) }

// huge is how many bytes of the mappings of memory are in huge pages.
func huge(t *testing.T, memory []byte) (bytes int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip("this system tells nothing about mappings: ", err)
	}
	defer f.Close()
	from := uintptr(unsafe.Pointer(&memory[0]))
	inside := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var lo, hi uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &lo, &hi); n == 2 {
			inside = lo < from+uintptr(len(memory)) && hi > from
		}
		if kib := 0; inside && strings.HasPrefix(lines.Text(), "AnonHugePages:") {
			if _, err := fmt.Sscanf(lines.Text(), "AnonHugePages: %d kB", &kib); err != nil {
				t.Fatal(err)
			}
			bytes += kib << 10
		}
	}
	return bytes
}
