//go:build linux

package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

func sum(t rig.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	rig.Must(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// script is a plugin that leaves a marker when it is executed.
func script(t rig.TB, path, marker, text string) {
	t.Helper()
	rig.Must(t, os.WriteFile(path, []byte("#!/bin/sh\n: > "+marker+"\n"+text+"\n"), 0o755))
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func changedPlugin(t *trial) {
	p := newPlace(t)
	path, marker := filepath.Join(p.Dir, "plugin"), filepath.Join(p.Dir, "executed")
	script(t, path, marker, "exit 1")
	want := sum(t, path)
	script(t, path, marker, "exit 2")
	for _, kind := range []string{"backend", "dataset", "precision"} {
		args := rig.Set(kind+".plugin=./plugin", fmt.Sprintf("%s.sha256=%q", kind, want))
		r := p.Train(t, args...)
		t.ended(r, 3).Prints(t, want, sum(t, path))
		p.Trainctl(t, append([]string{"plugins", "verify", p.Config}, args...)...).Expect(t, 3)
	}
	if isThere(marker) {
		t.Error("it was executed")
	}
	t.saw("both sums told, never executed")
}

func swappedPlugin(t *trial) {
	p := newPlace(t)
	p.AddFaultyPlugin(t)
	marker, path := filepath.Join(p.Dir, "executed"), filepath.Join(p.Dir, "faulty")
	good, evil := filepath.Join(p.Dir, "good"), filepath.Join(p.Dir, "evil")
	rig.Must(t, os.Rename(path, good))
	script(t, evil, marker, "exit 1")
	args := append([]string{"plugins", "verify", p.Config}, rig.Set(`dataset.plugin="./faulty"`, fmt.Sprintf("dataset.sha256=%q", sum(t, good)))...)
	codes := map[int]int{}
	rnd := rand.New(rand.NewPCG(37, 0))
	p.exchange(t, good, path)
	for _, put := range []func(from string){
		func(from string) { rig.Must(t, os.Link(from, path+".new")); rig.Must(t, os.Rename(path+".new", path)) }, // another file under the path
		func(from string) { overwrite(path, from) },                                                              // other bytes in the same file
	} {
		quit := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
					put(good)
					time.Sleep(time.Duration(rnd.IntN(40)) * time.Millisecond)
					put(evil)
					time.Sleep(time.Duration(rnd.IntN(5)) * time.Millisecond)
				}
			}
		})
		for range 12 {
			r := p.Trainctl(t, args...)
			if codes[r.Code]++; r.Code != 0 && r.Code != 3 {
				t.Errorf("exit code %d:\n%s", r.Code, r.Stderr)
			}
		}
		close(quit)
		wg.Wait()
		rig.Must(t, os.Remove(path)) // the next one begins with a file of its own
		p.exchange(t, good, path)
	}
	if codes[0] == 0 || codes[3] == 0 {
		t.Errorf("the race was not run: exit codes %v", codes)
	}
	if isThere(marker) {
		t.Error("bytes were executed that had not been hashed")
	}
	t.saw("24 starts against a swapping path and a swapping file: exit codes %v, nothing else was executed", codes)
}

// exchange puts a copy of a file under another path, at once.
func (p *place) exchange(t rig.TB, from, to string) {
	tmp := to + ".new"
	copyFile(t, from, tmp)
	rig.Must(t, os.Chmod(tmp, 0o755))
	rig.Must(t, os.Rename(tmp, to))
}

// overwrite writes one file's bytes into another, unless that is being executed.
func overwrite(path, from string) {
	b, err := os.ReadFile(from)
	if err == nil {
		_ = os.WriteFile(path, b, 0o755)
	}
}

func noPlugin(t *trial) {
	p := newPlace(t)
	path := filepath.Join(p.Dir, "plugin")
	for name, c := range map[string]struct{ text, says string }{
		"garbage":        {"echo hello; exit 0", "hello"},
		"exits at once":  {"echo cannot find libfoo >&2; exit 7", "cannot find libfoo"},
		"hangs":          {"echo warming up; exec sleep 600", "was not ready within"},
		"binary noise":   {"head -c 200000 /dev/urandom; exit 0", "it "},
		"wrong socket":   {"echo '1|1|unix|/nowhere/at/all|grpc|'; exec sleep 600", "plugin"},
		"wrong protocol": {"echo '1|1|tcp|127.0.0.1:1|netrpc|'; exec sleep 600", "plugin"},
	} {
		rig.Must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+c.text+"\n"), 0o755))
		r := p.Train(t, rig.Set("backend.plugin=./plugin")...)
		if r.Code != 3 || !strings.Contains(r.Stderr, c.says) || !strings.Contains(r.Stderr, `backend plugin "./plugin"`) {
			t.Errorf("%s: exit code %d:\n%s", name, r.Code, r.Stderr)
		}
		r.Within(t, 20*time.Second)
	}
	t.saw("six programs, each exit 3 with its name, the one that hangs within 20 s")
}

func otherVersion(t *trial) {
	p := newPlace(t)
	path := filepath.Join(p.Dir, "plugin")
	for _, version := range []int{2, 99} {
		rig.Must(t, os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\necho '1|%d|unix|/nowhere|grpc|'\nexec sleep 600\n", version), 0o755))
		r := p.Train(t, rig.Set("dataset.plugin=./plugin")...)
		t.ended(r, 3).Prints(t, fmt.Sprintf("version %d of the plugin protocol", version), "this trainctl speaks 1").Within(t, 20*time.Second)
	}
	t.saw("both versions told")
}

func spyPlugin(t *trial) {
	p := newPlace(t)
	p.AddFaultyPlugin(t)
	rig.Must(t, os.WriteFile(filepath.Join(p.Dir, "secret"), []byte("of the user"), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	rig.Must(t, err)
	defer l.Close()
	p.Env = append(p.Env, "TRAINCTL_LIB_SPY="+l.Addr().String()) // let through to plugins
	open := p.Train(t, append(p.FaultArgs("dataset", "spy"), rig.Set("plugins.sandbox=off")...)...)
	if open.Code == 0 || !strings.Contains(open.Stderr, "the spy read") {
		t.Errorf("the spy is not a spy: exit code %d:\n%s", open.Code, open.Stderr)
	}
	args := append(p.FaultArgs("dataset", "spy"), rig.Set("dataset.sandbox=true", "train.max_steps=50")...)
	r := p.Train(t, args...)
	t.ended(r, 0)
	if isThere(filepath.Join(p.Dir, "planted")) != strings.Contains(open.Stderr, "wrote into") {
		t.Error("a file was planted")
	}
	t.saw("in the sandbox no file read or written, no connection; its daemon ended with the run")
}

func lyingPlugin(t *trial) {
	p := newPlace(t)
	p.AddFaultyPlugin(t)
	for _, fault := range []string{"other shape", "huge shape", "negative shape", "long message", "label", "close"} {
		r := p.Train(t, p.FaultArgs("dataset", fault)...)
		if r.Code != 1 && r.Code != 2 && r.Code != 3 && r.Code != 5 {
			t.Errorf("%s: exit code %d:\n%s", fault, r.Code, r.Stderr)
		}
		if len(r.Stderr) > 64<<10 {
			t.Errorf("%s: %d bytes of standard error", fault, len(r.Stderr))
		}
		if regexp.MustCompile(`(?m)^\[rank \d\] (panic: |fatal error: |unexpected fault)`).MatchString(r.Stderr) { // what plugins say is indented
			t.Errorf("%s: a rank crashed:\n%s", fault, r.Stderr)
		}
		if !strings.Contains(r.Stderr, "faulty") && !strings.Contains(r.Stderr, "data set") {
			t.Errorf("%s: neither the plugin nor the data set is named:\n%s", fault, r.Stderr)
		}
	}
	r := p.Train(t, append(p.FaultArgs("dataset", "flood"), rig.Set("train.max_steps=30", `dataset.timeout="40s"`)...)...)
	r.Expect(t, 0).Matches(t, `(?m)^\[rank 1\] \./faulty: the plugin prints too fast; lines were dropped from the log dropped=\d+`)
	if len(r.Stderr) > 2<<20 {
		t.Errorf("flood: %d bytes of standard error", len(r.Stderr))
	}
	t.saw("six lies, each an error with the plugin's name; 240 MB of output became %d kB", len(r.Stderr)>>10)
}
