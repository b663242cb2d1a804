package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"
)

// stampedLine is a line of a log, some seconds after an hour.
func stampedLine(seconds int, text string) string {
	return time.Date(2026, 1, 2, 3, 0, seconds, 5e6, time.UTC).Format(stampFormat) + text + "\n"
}

func logDir(t *testing.T, files map[int]string) afero.Fs {
	t.Helper()
	fsys := afero.NewMemMapFs()
	for rank, text := range files {
		if err := afero.WriteFile(fsys, "logs/"+logName(rank), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := afero.WriteFile(fsys, "logs/rank-x.log", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return fsys
}

func texts(t *testing.T, l *LogReader) (out []string) {
	t.Helper()
	for {
		line, ok, err := l.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out
		}
		out = append(out, fmt.Sprintf("%d %d %s", line.Time.Second(), line.Rank, line.Text))
	}
}

// Lines come in the order of time; at equal times, and without a time of their
// own, in the order in which they were written.
func TestReadLogsMerges(t *testing.T) {
	fsys := logDir(t, map[int]string{
		0:  stampedLine(1, "a") + "more of a\n" + stampedLine(5, "e") + stampedLine(5, ""),
		1:  stampedLine(2, "b") + stampedLine(5, "f"),
		10: "before all\n" + stampedLine(3, "c"),
	})
	for _, c := range []struct {
		ranks []int
		want  []string
	}{
		{nil, []string{"0 10 before all", "1 0 a", "1 0 more of a", "2 1 b", "3 10 c", "5 0 e", "5 0 ", "5 1 f"}},
		{[]int{1, 10}, []string{"0 10 before all", "2 1 b", "3 10 c", "5 1 f"}},
	} {
		l, err := ReadLogs(fsys, "logs", c.ranks...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, texts(t, l)); diff != "" {
			t.Errorf("ranks %v (-want +got):\n%s", c.ranks, diff)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := ReadLogs(fsys, "logs", 1, 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a rank without a log: %v", err)
	}
	if _, err := ReadLogs(fsys, "elsewhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// A line is given when its end is written, and what never gets one at last.
func TestReadLogsFollows(t *testing.T) {
	fsys := logDir(t, map[int]string{0: stampedLine(1, "a") + "2026-01-"})
	l, err := ReadLogs(fsys, "logs")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := texts(t, l); !slices.Equal(got, []string{"1 0 a"}) {
		t.Errorf("%q", got)
	}
	f, err := fsys.OpenFile("logs/rank-0.log", 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	whole := stampedLine(1, "a") + stampedLine(2, "b") + stampedLine(3, "c")
	if _, err := f.WriteAt([]byte(whole[:len(whole)-1]), 0); err != nil {
		t.Fatal(err)
	}
	if got := texts(t, l); !slices.Equal(got, []string{"2 0 b"}) {
		t.Errorf("%q", got)
	}
	if rest := l.Rest(); len(rest) != 1 || rest[0].Text != "c" {
		t.Errorf("%v", rest)
	}
}

// Tail begins with a whole line.
func TestTailOfLogs(t *testing.T) {
	long := stampedLine(1, "a") + stampedLine(3, "b") + stampedLine(4, "c")
	l, err := ReadLogs(logDir(t, map[int]string{0: long, 1: stampedLine(2, "d")}), "logs")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Tail(int64(2*len(stampedLine(1, "a")) - 3)); err != nil {
		t.Fatal(err)
	}
	if got := texts(t, l); !slices.Equal(got, []string{"2 1 d", "4 0 c"}) {
		t.Errorf("%q", got)
	}
}

// What a launcher writes, ReadLogs reads, and remarks are among it.
func TestLogsReadBack(t *testing.T) {
	fsys := afero.NewMemMapFs()
	run(t, Options{Nproc: 2, Command: asRole("chat"), FS: fsys, LogDir: "logs"})
	l, err := ReadLogs(fsys, "logs")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	last, n := time.Time{}, 0
	for {
		line, ok, err := l.Next()
		if err != nil || !ok {
			break
		}
		if line.Time.Before(last) {
			t.Fatalf("%v after %v", line.Time, last)
		}
		last, n = line.Time, n+1
	}
	if n != 2000 {
		t.Errorf("%d lines", n)
	}

	log, err := OpenRankLog(fsys, "logs", 7, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	log.Lines("one\ntwo")
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	l, err = ReadLogs(fsys, "logs", 7)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if first, _, _ := l.Next(); first.Text != "one" || time.Since(first.Time) > time.Hour {
		t.Errorf("%+v", first)
	}
}
