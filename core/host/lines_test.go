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
	text := "panic: index out of range\n"
	for i := range 30 {
		text += fmt.Sprintf("frame %d\n", i)
	}
	text += strings.Repeat("x", 3*maxLine) + "\n" + `{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"a record","done":1}` + "\n{not a record\n"
	l.read(strings.NewReader(text), func(line []byte) bool { return string(line) == "frame 29" })
	got := l.last()
	if len(got) != tailLines+2 || got[0] != "panic: index out of range" {
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
