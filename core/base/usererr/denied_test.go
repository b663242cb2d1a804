package usererr

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestAllowed(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{syscall.EACCES: "; fix: let the user", syscall.EROFS: "; fix: choose a folder", syscall.EPERM: "; fix: run trainctl as"} {
		denied := &os.PathError{Op: "open", Path: "data/t.csv", Err: errno}
		err := Allowed(fmt.Errorf("csv: %w", denied))
		if text := err.Error(); !strings.Contains(text, "open data/t.csv: "+errno.Error()+want) || !errors.Is(err, errno) {
			t.Errorf("%s", text)
		}
		for _, other := range []error{fmt.Errorf("%w (choose another with --run-dir)", denied), fmt.Errorf("%w; fix: buy a disk", denied), errors.New("open x: no such file or directory")} {
			if got := Allowed(other); got != other {
				t.Errorf("%v", got)
			}
		}
	}
}
