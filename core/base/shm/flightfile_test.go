package shm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func moments(i int) Flight {
	return Flight{
		Ticket: uint64(i), Seq: uint64(i) * 3, Bytes: 1 << 40, Bucket: -1, Op: 1, DType: 2, Reduce: 3, Generation: 4,
		Enqueued: time.Unix(0, int64(i)*1000+1),
	}
}

// The file tells the last operations of a process that was never asked to close it.
func TestFlightFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	for round := range 2 { // the second replaces the first
		f, err := CreateFlightFile(path, []byte("about"))
		if err != nil {
			t.Fatal(err)
		}
		var want []Flight
		for i := 1; i <= Flights+100; i++ {
			r := moments(i + round)
			n := f.Add(&r)
			if i%2 == 0 {
				r.Started, r.Ended, r.Status = r.Enqueued.Add(1), r.Enqueued.Add(2), Failed
				f.Update(n, &r)
			}
			want = append(want, r)
		}
		old := moments(7)
		f.Update(0, &old) // forgotten
		about, got, total, err := ReadFlightFile(path)
		if err != nil || string(about) != "about" || total != Flights+100 {
			t.Errorf("%q, %d, %v", about, total, err)
		}
		if d := cmp.Diff(want[100:], got); d != "" {
			t.Error(d)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A file that is cut short under its mapping ends the record, not the process.
func TestFlightFileIsCutShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	f, err := CreateFlightFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := moments(1)
	f.Add(&r)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	f.Add(&r)
	f.Update(1, &r)
	if !f.lost {
		t.Error("nothing was noticed")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestBadFlightFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	f, err := CreateFlightFile(path, []byte("about"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(b []byte) []byte{
		"empty":       func([]byte) []byte { return nil },
		"short":       func(b []byte) []byte { return b[:len(b)-1] },
		"other magic": func(b []byte) []byte { b[0] = 0; return b },
		"other size":  func(b []byte) []byte { b[8]++; return b },
		"long about":  func(b []byte) []byte { b[offFlightAbout+2] = 1; return b },
	} {
		if err := os.WriteFile(path, change(bytes.Clone(good)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := ReadFlightFile(path); err == nil {
			t.Errorf("%s: read without a word", name)
		}
	}
}

func BenchmarkFlightFile(b *testing.B) {
	f, err := CreateFlightFile(filepath.Join(b.TempDir(), "record"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	r := moments(1)
	for b.Loop() {
		f.Update(f.Add(&r), &r)
	}
}

// A reader sees a whole record at any time, while files are created over each other.
func TestFlightFileAppearsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	created := make(chan error)
	go func() {
		for range 100 {
			f, err := CreateFlightFile(path, []byte("about"))
			if err == nil {
				err = f.Close()
			}
			if err != nil {
				created <- err
				return
			}
		}
		close(created)
	}()
	for {
		if _, _, _, err := ReadFlightFile(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		select {
		case err := <-created:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}
