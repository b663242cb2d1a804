package pipe

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// overdue is a pipe whose reader comes after its deadline, with what was written before.
func overdue(t *testing.T, text []byte) (r *Reader, w *os.File) {
	t.Helper()
	f, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close(); w.Close() })
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := f.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	return &Reader{File: f}, w
}

// Nothing that was written is lost, and the deadline ends the wait for more.
func TestDeadlineEndsOnlyTheWait(t *testing.T) {
	text := bytes.Repeat([]byte("last words\n"), 5000)
	r, _ := overdue(t, text)
	if got, err := io.ReadAll(r); !bytes.Equal(got, text) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d of %d bytes, %v", len(got), len(text), err)
	}
	r, w := overdue(t, text)
	w.Close()
	if got, err := io.ReadAll(r); !bytes.Equal(got, text) || err != nil {
		t.Errorf("of a closed pipe: %d of %d bytes, %v", len(got), len(text), err)
	}
}

// Without a deadline it reads as the file does.
func TestReaderWaits(t *testing.T) {
	f, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	go func() {
		w.WriteString("one")
		w.WriteString("two")
		w.Close()
	}()
	if got, err := io.ReadAll(&Reader{File: f}); string(got) != "onetwo" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A process that goes on writing does not keep the reader.
func TestEndlessWriter(t *testing.T) {
	r, w := overdue(t, []byte("x"))
	go func() {
		for b := make([]byte, 4096); ; {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	}()
	if n, err := io.Copy(io.Discard, struct{ io.Reader }{r}); n == 0 || n > most || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := r.File.Close(); err != nil {
		t.Error(err)
	}
}
