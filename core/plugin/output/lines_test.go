package output

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLastLines(t *testing.T) {
	l := New(slog.New(slog.DiscardHandler))
	var text string
	for i := range 30 {
		text += fmt.Sprintf("frame %d\n", i)
	}
	text += strings.Repeat("x", 3*maxLine) + "\n" + `{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"a record","done":1}` + "\n{not a record\n"
	l.Read(strings.NewReader(text), func(line []byte) bool { return string(line) == "frame 29" })
	got := l.Last()
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

// A plugin's crash is reported by its message and its place, however long its dump
// is; the log has all of that, and floods are no dump.
func TestLastLinesOfACrash(t *testing.T) {
	var logged strings.Builder
	l := New(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: LevelStack})))
	text := strings.Repeat("an ordinary line\n", 30) + "panic: index out of range\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x8 pc=0x48be5e]\n\n"
	for i := range 300 {
		text += fmt.Sprintf("goroutine %d [running]:\nmain.(*Star).Do(0x28?)\n\t/src/mine/star.go:%d +0x11e\n\n", i+1, i+118)
	}
	l.Read(strings.NewReader(text+"rax    0x1\n"), nil)
	want := append(slices.Repeat([]string{"an ordinary line"}, beforeCrash),
		"panic: index out of range", "SIGSEGV: segmentation violation, at address 0x8", "  main.(*Star).Do at src/mine/star.go:118")
	if got := l.Last(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, all := range []string{"star.go:417", "rax    0x1"} {
		if !strings.Contains(logged.String(), all) {
			t.Errorf("the log lacks %q", all)
		}
	}
}

// A dump tells which goroutine is in the plugin's code, and where. One that waits for this code to
// end does not hang, nor does one that waits for a lock where another is left.
func TestTheHangingGoroutineIsFound(t *testing.T) {
	l := New(slog.New(slog.DiscardHandler))
	for line := range strings.Lines(`an ordinary line
SIGQUIT: quit
PC=0x47e0a1 m=0 sigcode=0

goroutine 1 [select, 2 minutes]:
github.com/hashicorp/go-plugin.Serve(0xc000190d80)
	/mod/go-plugin/server.go:527 +0x1b4
main.main()
	/src/main.go:9 +0x4f

goroutine 9 [runnable]:
github.com/trainctl/trainctl/core/sdk.(*server).Shutdown(0xc0001a0000, {0x9d3f80, 0xc0001b2000}, 0x0)
	/mod/core/sdk/server.go:315 +0x3a
github.com/trainctl/trainctl/core/sdk.guard({0x9d3f80, 0xc0001b2000}, 0x0)
	/mod/core/sdk/serve.go:159 +0x8d

goroutine 10 [sync.Mutex.Lock, 2 minutes]:
main.(*Star).Close(0xc0000b4000)
	/src/mine/star.go:130 +0x1f
github.com/trainctl/trainctl/core/sdk.(*server).call(0xc0001a0000, 0x0)
	/mod/core/sdk/server.go:340 +0x8d

goroutine 12 [select (no cases), 2 minutes]:
main.(*wire).read(...)
	/src/mine/wire.go:31
main.(*Star).Do(0xc0000b4000, {0x9d3f80, 0xc0001b2000}, 0xc00011c0a0)
	/src/mine/star.go:118 +0x1f
github.com/trainctl/trainctl/core/sdk.(*server).do.func1({0x9d3f80?, 0xc0001b2000?})
	/mod/core/sdk/work.go:126 +0x3a
github.com/trainctl/trainctl/core/sdk.(*server).do(0xc0001a0000, {0x9d3f80, 0xc0001b2000}, 0x0, 0xc00011c0a0)
	/mod/core/sdk/work.go:127 +0x8d
`) {
		l.Add(strings.TrimSuffix(line, "\n"))
	}
	got := l.Hanging()
	want := []string{"goroutine 12 [select (no cases), 2 minutes]", "main.(*wire).read at src/mine/wire.go:31", "main.(*Star).Do at src/mine/star.go:118"}
	if len(got) < 3 || !slices.Equal(got[:3], want) {
		t.Errorf("%q", got)
	}
	if last := l.Last(); len(last) != 1 || last[0] != "an ordinary line" {
		t.Errorf("the dump pushed out the last lines: %q", last)
	}
}

// What floods the log is left out and counted, and what comes later is logged.
func TestFloodsAreLimited(t *testing.T) {
	var r rate
	now := time.Unix(1, 0)
	passed, dropped := 0, 0
	for i := range 1_000_000 { // ten seconds of 100,000 lines a second
		ok, n := r.admit(now.Add(time.Duration(i) * 10 * time.Microsecond))
		if ok {
			passed++
		}
		dropped += n
	}
	if want := lineBurst + 10*linesPerSecond; passed < want-1 || passed > want+1 {
		t.Errorf("%d lines passed, want %d", passed, want)
	}
	if ok, n := r.admit(now.Add(time.Minute)); !ok || passed+dropped+n != 1_000_000 {
		t.Errorf("of a million lines %d passed and %d were reported as dropped", passed, dropped+n)
	}
}
