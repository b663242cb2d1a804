package crash

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// read gives a dump of testdata to a Dump, and tells what it did not take.
func read(t *testing.T, name string) (r *Report, rest []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	var d Dump
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if !d.Take(line) {
			rest = append(rest, line)
		}
	}
	return d.Report(), rest
}

// The dumps are of a program that really crashed, in the ways that testdata's
// names say.
func TestReports(t *testing.T) {
	dumps, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(dumps) < 18 {
		t.Fatal(dumps, err)
	}
	for _, path := range dumps {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			r, rest := read(t, name)
			got := strings.Join(r.Lines(), "\n") + "\n"
			golden := strings.TrimSuffix(path, ".txt") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || string(want) != got {
				t.Errorf("%v\n%s\nwant\n%s", err, got, want)
			}
			if len(r.Frames) > maxFrames || regexp.MustCompile(`rax|r15|rflags|gp=|fp=|pc=|\+0x|/usr/local|/tmp/`).MatchString(got) {
				t.Errorf("more than people need:\n%s", got)
			}
			for _, line := range rest {
				if line != "ready" && !regexp.MustCompile(`^\d$`).MatchString(line) {
					t.Errorf("left out of the dump: %q", line)
				}
			}
		})
	}
}

// Where it happened is the same however the program was built and however much
// it prints.
func TestPlaceIsThatOfOurs(t *testing.T) {
	for name, want := range map[string]string{
		"nil": "core/train/step.go:25", "trim-nil-single": "core/train/step.go:25", "trim-nil-all": "core/train/step.go:25",
		"trim-nil-system": "core/train/step.go:25", "trim-nil-crash": "core/train/step.go:25", "trim-nil-none": "",
		"maps": "core/train/step.go:32", "overflow": "core/train/step.go:13", "oom": "core/train/step.go:39", "bus": "core/train/step.go:45",
		"wait-SEGV": "core/train/step.go:50", "spin-BUS": "core/train/step.go:58", "cgo-segv": "ann/foreign/c.go:14",
	} {
		if r, _ := read(t, name); strings.TrimPrefix(r.At(), "home/") != want {
			t.Errorf("%s: at %q, want %q: %q", name, r.At(), want, r.Frames)
		}
	}
}

// A source's folder may have spaces in its name.
func TestPlaceWithSpaces(t *testing.T) {
	for _, end := range []string{"", " +0x2f", " fp=0xc0000b2 sp=0xc0000a1 pc=0x47", " +0x2f fp=0xc0000b2 sp=0xc0000a1 pc=0x47"} {
		var d Dump
		for _, line := range []string{"panic: boom", "", "goroutine 1 [running]:", "main.main()", "\t/home/ann/my work/main.go:9" + end} {
			d.Take(line)
		}
		if r := d.Report(); r == nil || len(r.Frames) != 1 || !strings.HasSuffix(r.Frames[0], "main.go:9") {
			t.Errorf("%q: %+v", end, r)
		}
	}
}

// What a process prints before and during its crash is not part of it.
func TestOrdinaryLines(t *testing.T) {
	var d Dump
	for line, want := range map[string]bool{"epoch 1 (of 3)": false, "goroutine 7 [running]:": false, "rax 0x0": false, "": false} {
		if got := d.Take(line); got != want {
			t.Errorf("before: %q is %v", line, got)
		}
	}
	if d.Report() != nil {
		t.Fatal("a report without a crash")
	}
	for _, line := range []string{"panic: boom", "", "goroutine 1 [running]:", "main.main()", "\t/src/main.go:9 +0x2f"} {
		if !d.Take(line) {
			t.Errorf("%q is left out", line)
		}
	}
	for _, line := range []string{"time=12:00 level=INFO msg=\"step 4 (last)\"", "warning: the queue is full", "error: boom"} {
		if d.Take(line) {
			t.Errorf("%q is taken for the dump's", line)
		}
	}
}

// A panic that was recovered from and printed is not what a later crash is about.
func TestTheLastPanicCounts(t *testing.T) {
	var d Dump
	for _, line := range []string{"panic: recovered", "", "goroutine 9 [running]:", "main.first()", "\t/src/a.go:1 +0x1", "an ordinary line",
		"panic: boom", "", "goroutine 1 [running]:", "main.second()", "\t/src/b.go:2 +0x2"} {
		d.Take(line)
	}
	if r := d.Report(); r.Message != "panic: boom" || r.At() != "/src/b.go:2" {
		t.Errorf("%+v", r)
	}
}

// Frames of a plugin's own module count as ours; those of Go and of dependencies
// do not.
func TestOurs(t *testing.T) {
	for call, want := range map[[2]string]bool{
		{"main.(*Star).Do", "/src/star.go:1"}:                                      true,
		{"example.org/star/ring.Pass", "/src/star/ring/pass.go:2"}:                 true,
		{"mine/ring.Pass", "mine/ring/pass.go:2"}:                                  true,
		{"google.golang.org/grpc.(*Server).Serve", "/mod/grpc@v1.70.0/serv.go:3"}:  false,
		{"github.com/trainctl/trainctl/core/sdk.Serve", "/mod/trainctl@v1.0/s.go"}: true,
		{"internal/poll.(*FD).Read", "internal/poll/fd.go:3"}:                      false,
		{"panic", "runtime/panic.go:1"}:                                            false,
		{"main._Cfunc_boom", "_cgo_gotypes.go:48"}:                                 false,
	} {
		if got := ours(call[0], call[1]); got != want {
			t.Errorf("%q: %v", call, got)
		}
	}
}
