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
)

// disk is a file system on which a file has room for so many bytes.
type disk struct {
	afero.Fs
	room int
}

type file struct {
	afero.File
	d *disk
}

func (d *disk) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f, err := d.Fs.OpenFile(name, flag, perm)
	return &file{f, d}, err
}

// Write writes what there is room for, as a full disk does.
func (f *file) Write(b []byte) (int, error) {
	n := min(len(b), f.d.room)
	f.d.room -= n
	if _, err := f.File.Write(b[:n]); err != nil || n == len(b) {
		return n, err
	}
	return n, syscall.ENOSPC
}

func gap(lost int, _ error) string { return strings.Repeat("-", lost) }

// What could not be written is neither there by halves nor glued to what
// follows, and the place says how much is missing.
func TestFullDiskRecovers(t *testing.T) {
	d := &disk{afero.NewOsFs(), 7}
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
	d.room = 100
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
	d := &disk{afero.NewOsFs(), 3}
	out, err := d.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	f := New(struct{ w }{out}, gap)
	if err := f.Append([]byte("lost 1\n"), 1); err == nil {
		t.Error("no error")
	}
	d.room = 100
	f.Flush()
	b := make([]byte, 20)
	n, _ := out.ReadAt(b, 0)
	if string(b[:n]) != "los\n-\n" {
		t.Errorf("%q", b[:n])
	}
}

type w interface{ Write([]byte) (int, error) }
