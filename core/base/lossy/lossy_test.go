package lossy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func dropped(n int) []byte { return fmt.Appendf(nil, "[%d lines dropped]\n", n) }

// linesOf reads r to its end and sends its lines.
func linesOf(r io.Reader) <-chan []string {
	text := make(chan []string)
	go func() {
		b, _ := io.ReadAll(r)
		text <- strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	}()
	return text
}

// A reader that stops reading does not block the writer: the newest lines are kept, one
// line says how many are missing, and what is there adds up.
func TestUnreadOutputHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	r, out := pipe(t)
	w := NewWriter(out, Options{Limit: 64 << 10, Notice: dropped})
	const lines = 100_000 // far more than the pipe and the limit hold
	for i := range lines {
		if _, err := fmt.Fprintf(w, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	got := drained(t, w, linesOf(r), out)
	next, missing := 0, 0
	for _, l := range got {
		var n int
		if _, err := fmt.Sscanf(l, "[%d lines dropped]", &n); err == nil {
			next, missing = next+n, missing+n
			continue
		}
		if l != fmt.Sprintf("line %d", next) {
			t.Fatalf("%q where line %d should be", l, next)
		}
		next++
	}
	if next != lines || missing == 0 || missing != w.Lost() {
		t.Errorf("the last line is %d of %d; %d missing, %d lost", next, lines, missing, w.Lost())
	}
}

// pipe is a pipe whose writing end is closed at the latest when the test ends.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return r, w
}

// drained closes a writer and its pipe, and returns the lines that were read from the pipe.
func drained(t *testing.T, w *Writer, lines <-chan []string, out *os.File) []string {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	return <-lines
}

// Where gaps are frequent, one notice counts those of a while, and the last one
// the rest: what is there and what is reported as lost add up.
func TestNoticesOfManyGapsAreFew(t *testing.T) {
	t.Parallel()
	r, out := pipe(t)
	w := NewWriter(out, Options{Limit: 1 << 10, Notice: dropped, NoticeEvery: time.Hour})
	text := linesOf(r)
	const lines = 50_000
	for i := range lines {
		fmt.Fprintf(w, "line %d\n", i)
	}
	all := drained(t, w, text, out)
	missing, notices := 0, 0
	for _, l := range all {
		var n int
		if _, err := fmt.Sscanf(l, "[%d lines dropped]", &n); err == nil {
			missing, notices = missing+n, notices+1
		}
	}
	if missing == 0 || notices > 2 || len(all)-notices+missing != lines {
		t.Errorf("%d notices of %d missing lines, %d there", notices, missing, len(all)-notices)
	}
}

// stuck is an output whose writes block until it is released.
type stuck struct {
	free  chan struct{}
	wrote sync.WaitGroup
}

func (s *stuck) Write(b []byte) (int, error) {
	defer s.wrote.Done()
	<-s.free
	return len(b), nil
}

func TestCloseGivesUpOnAnOutputThatTakesNothing(t *testing.T) {
	t.Parallel()
	out := &stuck{free: make(chan struct{})}
	out.wrote.Add(1)
	w := NewWriter(out, Options{Patience: 20 * time.Millisecond})
	for range 3 {
		if _, err := w.Write([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
	}
	if !w.Busy() {
		t.Error("it is not busy")
	}
	if err := w.Close(); !errors.Is(err, errStuck) {
		t.Error(err)
	}
	if w.Lost() < 2 {
		t.Errorf("%d lines lost", w.Lost())
	}
	close(out.free)
	out.wrote.Wait()
	<-w.done
}

// slow accepts a byte at a time, and sometimes none.
type slow struct {
	bytes.Buffer
	n int
}

func (s *slow) Write(b []byte) (int, error) {
	if s.n++; s.n%3 == 0 {
		return 0, syscall.EAGAIN
	}
	return s.Buffer.Write(b[:1])
}

func TestASlowOutputGetsEverything(t *testing.T) {
	t.Parallel()
	out := &slow{}
	w := NewWriter(out, Options{})
	io.WriteString(w, "one\n")
	io.WriteString(w, "two\n")
	if err := w.Close(); err != nil || out.String() != "one\ntwo\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestABrokenOutputIsTold(t *testing.T) {
	t.Parallel()
	w := NewWriter(broken{}, Options{})
	if _, err := w.Write([]byte("x\n")); err != nil {
		t.Error(err)
	}
	<-w.done
	if _, err := w.Write([]byte("y\n")); !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
}
