package host

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestLastLines(t *testing.T) {
	l := &lines{log: slog.New(slog.DiscardHandler)}
	var text string
	for i := range 30 {
		text += fmt.Sprintf("frame %d\n", i)
	}
	text += strings.Repeat("x", 3*maxLine) + "\n" + `{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"a record","done":1}` + "\n{not a record\n"
	l.read(strings.NewReader(text), func(line []byte) bool { return string(line) == "frame 29" })
	got := l.last()
	if len(got) != tailLines {
		t.Errorf("%d lines, first %q", len(got), got[0])
	}
	if len(got[len(got)-3]) != maxLine {
		t.Errorf("a long line has %d bytes", len(got[len(got)-3]))
	}
	if want := []string{"a record", "{not a record"}; !slices.Equal(got[len(got)-2:], want) {
		t.Errorf("got %q", got[len(got)-2:])
	}
	if slices.Contains(got, "frame 29") {
		t.Error("a line that was taken is kept")
	}
}

// A plugin's crash is told by its message and its place, however long its dump
// is; the log has all of that, and floods are no dump.
func TestLastLinesOfACrash(t *testing.T) {
	var logged strings.Builder
	l := &lines{log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: LevelStack}))}
	text := strings.Repeat("an ordinary line\n", 30) + "panic: index out of range\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x8 pc=0x48be5e]\n\n"
	for i := range 300 {
		text += fmt.Sprintf("goroutine %d [running]:\nmain.(*Star).Do(0x28?)\n\t/src/mine/star.go:%d +0x11e\n\n", i+1, i+118)
	}
	l.read(strings.NewReader(text+"rax    0x1\n"), nil)
	want := append(slices.Repeat([]string{"an ordinary line"}, beforeCrash),
		"panic: index out of range", "SIGSEGV: segmentation violation, at address 0x8", "  main.(*Star).Do at src/mine/star.go:118")
	if got := l.last(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, all := range []string{"star.go:417", "rax    0x1"} {
		if !strings.Contains(logged.String(), all) {
			t.Errorf("the log lacks %q", all)
		}
	}
}

func TestHandshakeVersion(t *testing.T) {
	for line, want := range map[string]int{
		"1|1|unix|/tmp/x|grpc|cert": 1,
		"1|12|unix|/tmp/x|grpc":     12,
		"1|0|unix|/tmp/x|grpc|":     0,
		"2|1|unix|/tmp/x|grpc|":     0,
		"1|x|unix|/tmp/x|grpc|":     0,
		"1|1|unix":                  0,
		"hello":                     0,
	} {
		if got, _ := handshakeVersion(line); got != want {
			t.Errorf("%q: version %d, want %d", line, got, want)
		}
	}
}
