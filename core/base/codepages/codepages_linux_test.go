//go:build !portable

package codepages

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const maps = `00400000-01a3f000 r-xp 00000000 fe:00 131 /usr/bin/trainctl
Size:              26876 kB
Anonymous:             0 kB
01a3f000-02e00000 r--p 0163f000 fe:00 131 /usr/bin/trainctl
Anonymous:             4 kB
02e00000-02f00000 r--p 02a00000 fe:00 131 /usr/bin/trainctl
Anonymous:             0 kB
02f00000-02f80000 rw-p 02b00000 fe:00 131 /usr/bin/trainctl
Anonymous:             0 kB
7f0000000000-7f0000001000 r-xp 00000000 fe:00 132 /usr/lib/libc.so.6
Anonymous:             0 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]
Anonymous:             8 kB
`

// What may be written, has been, or belongs to another file stays.
func TestCleanAreas(t *testing.T) {
	got := clean(strings.NewReader(maps), "/usr/bin/trainctl")
	want := []area{{0x400000, 0x1a3f000}, {0x2e00000, 0x2f00000}}
	if !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// A process goes on as before.
func TestRelease(t *testing.T) {
	if Mapped(os.Getpid()) == 0 {
		t.Error("found no pages of this executable")
	}
	for range 10 {
		Release()
	}
}
