package appendfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/trainctl/trainctl/core/base/fulldisk"
)

func gap(lost int, _ error) string { return strings.Repeat("-", lost) }

// What could not be written is neither there by halves nor glued to what
// follows, and the place says how much is missing.
func TestFullDiskRecovers(t *testing.T) {
	d := &fulldisk.FS{Fs: afero.NewOsFs(), Room: 7}
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("torn by a crash"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, c, err := Open(d, path, false, gap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := f.Append([]byte("a\nb\n"), 2); err != nil {
		t.Fatal(err)
	}
	if err := f.Append([]byte("lost 1\n"), 1); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	f.tried = time.Time{} // the pause is over
	for range 2 {
		if err := f.Append([]byte("lost 2\n"), 1); err != nil {
			t.Errorf("told twice: %v", err)
		}
	}
	d.Room = 100
	f.tried = time.Time{}
	if err := f.Append([]byte("c\n"), 1); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if want := "torn by a crash\na\nb\n---\nc\n"; err != nil || string(b) != want {
		t.Errorf("%q, %v; want %q", b, err, want)
	}
}

// Where nothing can be taken back, as in a pipe, the next line begins anew.
func TestTornWrite(t *testing.T) {
	d := &fulldisk.FS{Fs: afero.NewOsFs(), Room: 3}
	out, err := d.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	f := New(struct{ w }{out}, gap)
	if err := f.Append([]byte("lost 1\n"), 1); err == nil {
		t.Error("no error")
	}
	d.Room = 100
	f.Flush()
	b := make([]byte, 20)
	n, _ := out.ReadAt(b, 0)
	if string(b[:n]) != "los\n-\n" {
		t.Errorf("%q", b[:n])
	}
}

type w interface{ Write([]byte) (int, error) }
