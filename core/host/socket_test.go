package host

import (
	"strings"
	"testing"
)

// A socket's path has to fit into 104 bytes, however long TMPDIR is.
func TestSocketsFitUnderAnyTemporaryDirectory(t *testing.T) {
	for n := 5; n < 300; n++ {
		tmp := "/" + strings.Repeat("t", n-1)
		home := socketHome(tmp)
		if len(home)+len("/plugin-dir1234567890/plugin1234567890") >= 104 {
			t.Fatalf("%d bytes of TMPDIR: sockets go to %s", n, home)
		}
		if n < 60 && home != tmp {
			t.Errorf("%d bytes of TMPDIR fit and are not used", n)
		}
	}
}
