package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// dies starts a backend, lets f do something to it while an operation is in
// flight, and gives the error of the operation.
func dies(t *testing.T, o host.Options, mode string, timeout time.Duration, f func(pid int)) *host.PluginError {
	t.Helper()
	b, arena := startBackend(t, newHost(t, o), mode, timeout)
	ticket, err := b.Submit(allReduce(arena, 1, 0, 1))
	must(t, err)
	f(b.PID())
	err = b.Wait(ticket)
	var failed *host.PluginError
	if !errors.As(err, &failed) {
		t.Fatalf("Wait: %v", err)
	}
	if _, err := b.Submit(allReduce(arena, 2, 0, 1)); err == nil {
		t.Error("a dead plugin takes work")
	}
	equal(t, "pid", failed.PID, b.PID())
	must(t, b.Close(context.Background()))
	if err := syscall.Kill(-b.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process group is still there: %v", err)
	}
	return failed
}

// bothPlanes runs a test with the shared-memory and the inline data plane.
func bothPlanes(t *testing.T, test func(t *testing.T)) {
	t.Run("shm", test)
	t.Run("inline", func(t *testing.T) {
		t.Setenv("TRAINCTL_DATA_PLANE", "inline")
		test(t)
	})
}

func TestDeathInTheMiddleOfAnOperation(t *testing.T) {
	bothPlanes(t, func(t *testing.T) {
		err := dies(t, host.Options{}, "exit", time.Minute, func(int) {})
		if !errors.Is(err, host.ErrDied) || !strings.Contains(err.Error(), "exit status 3") || !slices.Contains(err.LastLines, "last words") {
			t.Errorf("got %v", err)
		}
	})
}

func TestKilledInTheMiddleOfAnOperation(t *testing.T) {
	bothPlanes(t, func(t *testing.T) {
		err := dies(t, host.Options{}, "deaf", time.Minute, func(pid int) { must(t, syscall.Kill(pid, syscall.SIGKILL)) })
		if !errors.Is(err, host.ErrDied) || !strings.Contains(err.Error(), "signal: killed") {
			t.Errorf("got %v", err)
		}
		inline := os.Getenv("TRAINCTL_DATA_PLANE") == "inline"
		if got := err.LastFlight; inline != (got == "") || !inline && (!strings.HasPrefix(got, "all_reduce #1, f32, ") || !strings.Contains(got, " ago, not ")) {
			t.Errorf("the last operation is %q", got)
		}
	})
}

func TestStoppedProcess(t *testing.T) {
	bothPlanes(t, func(t *testing.T) {
		err := dies(t, host.Options{HangTimeout: time.Second}, "deaf", time.Minute, func(pid int) { must(t, syscall.Kill(pid, syscall.SIGSTOP)) })
		if !errors.Is(err, host.ErrHung) {
			t.Errorf("got %v", err)
		}
	})
}

// An operation that ignores its deadline is given up although the process lives.
func TestOperationThatDoesNotReturn(t *testing.T) {
	host.SetMargin(t, 100*time.Millisecond)
	bothPlanes(t, func(t *testing.T) {
		err := dies(t, host.Options{}, "deaf", 100*time.Millisecond, func(int) {})
		if !errors.Is(err, host.ErrHung) {
			t.Errorf("got %v", err)
		}
		checkHangsInDo(t, err)
	})
}

func checkHangsInDo(t *testing.T, err *host.PluginError) {
	t.Helper()
	if !slices.ContainsFunc(err.Stack, func(f string) bool {
		return strings.Contains(f, "(*fakeBackend).Do at core/plugin/host_test/host_test.go:")
	}) {
		t.Errorf("the stack does not say where it hangs: %q\n%v", err.Stack, err)
	}
}

func TestCloseOfAHungPlugin(t *testing.T) {
	b, arena := startBackend(t, newHost(t, host.Options{StopTimeout: 300 * time.Millisecond}), "deaf", time.Minute)
	ticket, err := b.Submit(allReduce(arena, 1, 0, 1))
	must(t, err)
	waited := make(chan error, 1)
	go func() { waited <- b.Wait(ticket) }()
	err = b.Close(context.Background())
	var failed *host.PluginError
	if !errors.As(err, &failed) || !errors.Is(err, host.ErrHung) || !strings.Contains(err.Error(), "it did not close within 300ms") {
		t.Fatalf("a plugin that did not close gives %v", err)
	}
	checkHangsInDo(t, failed)
	if err := <-waited; !errors.Is(err, host.ErrClosed) {
		t.Errorf("Wait during Close: %v", err)
	}
}

func TestErrorOfClose(t *testing.T) {
	b, _ := startBackend(t, newHost(t, host.Options{}), "close", time.Minute)
	err := b.Close(context.Background())
	if err == nil || !strings.Contains(err.Error(), "cannot close") {
		t.Errorf("got %v", err)
	}
	if err2 := b.Close(context.Background()); err2 != err {
		t.Errorf("second Close: %v", err2)
	}
}

func TestOpenErrors(t *testing.T) {
	b := newBackend(t, newHost(t, host.Options{}), false)
	defer b.Close(context.Background())
	err := b.Open(t.Context(), sdk.Group{WorldSize: 1}, sdk.Options{"mode": "open"})
	if err == nil || !strings.Contains(err.Error(), `backend plugin "fake": open: cannot open`) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Open(ctx, sdk.Group{WorldSize: 1}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// script writes an executable shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin.sh")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	return path
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	plain, binary := filepath.Join(dir, "plain"), filepath.Join(dir, "binary")
	must(t, os.WriteFile(plain, []byte("x"), 0o644))
	must(t, os.WriteFile(binary, []byte{0, 1, 2, 3}, 0o755))
	exe, err := os.Executable()
	must(t, err)
	for _, c := range []struct {
		name, plugin string
		want         []string
	}{
		{"unknown name", "fakd", []string{"it is not built in, and there is no executable trainctl-backend-fakd in ", "known: fake", "did you mean fake?", "as in ./fakd"}},
		{"missing file", "./missing", []string{"no such file"}},
		{"directory", dir, []string{"is a directory"}},
		{"not executable", plain, []string{"not executable", "chmod +x"}},
		{"no program", binary, []string{"exec format error"}},
		{"garbage", script(t, "echo hello; echo world >&2; exec sleep 60 >/dev/null"), []string{"without the handshake", "hello", "world"}},
		{"exits at once", script(t, "echo oops >&2; exit 7"), []string{"ended at once: exit status 7", "oops"}},
		{"killed at once", script(t, "kill -9 $$"), []string{"signal: killed"}},
		{"killed slowly", script(t, "exec >&-; sleep 0.3; kill -9 $$"), []string{"signal: killed"}}, // its output is closed first, as the kernel does it
		{"killed in the handshake", script(t, "echo \"1|1|unix|$PWD/nowhere|grpc|\"; sleep 0.3; kill -9 $$"), []string{"signal: killed"}},
		{"newer protocol", script(t, "echo '1|7|unix|/nowhere|grpc|'; exec sleep 60"), []string{"speaks version 7", "speaks 1"}},
		{"hangs", script(t, "exec sleep 60"), []string{"not ready within 700ms"}},
		{"dead socket", script(t, "echo '1|1|unix|/nowhere|grpc|'; exec sleep 60"), nil},
		{"other kind", script(t, "exec "+exe+" plugin dataset fake"), []string{"this plugin is not a backend; it serves [dataset]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := host.Options{}
			if c.name == "hangs" || c.name == "dead socket" {
				o.StartTimeout = 700 * time.Millisecond
			}
			_, err := newHost(t, o).StartBackend(t.Context(), c.plugin)
			var failed *host.StartError
			if !errors.As(err, &failed) || failed.Name != c.plugin {
				t.Fatalf("got %v", err)
			}
			// What a signal ended may be started again.
			if fault := strings.HasPrefix(c.name, "killed"); failed.Fault != fault {
				t.Errorf("fault is %v: %v", failed.Fault, err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
}

func TestStartIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := newHost(t, host.Options{}).StartBackend(ctx, script(t, "exec sleep 60"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPathPlugin(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	// What the package prints before Serve, and a grandchild that keeps the pipes.
	path := script(t, "echo starting; sleep 60 & exec "+exe+" plugin backend fake")
	h := newHost(t, host.Options{})
	info, err := h.Describe(t.Context(), sdk.KindBackend, path)
	must(t, err)
	equal(t, "version", info.Version, "1.2.3")
	equal(t, "options", fmt.Sprint(info.Options[1].Default, info.Options[2].Default), fmt.Sprint([]float64{0.5, 2}, int64(1<<60)))
	equal(t, "list", len(h.List()), 3)
}

// sum requires a checksum of a backend.
func sum(path, sha256 string) map[host.Key]host.Terms {
	return map[host.Key]host.Terms{{Kind: sdk.KindBackend, Plugin: path}: {SHA256: sha256}}
}

// The files of a plugin that has a folder stay as they are when it is started by its path.
func TestPathIntoAPluginsFolder(t *testing.T) {
	root := filepath.Join(t.TempDir(), "trainctl-dataset-mine@1.0.0")
	exe := filepath.Join(root, "trainctl-dataset-mine")
	if err := errors.Join(os.Mkdir(root, 0o755), os.WriteFile(exe, nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	if p, err := host.New(host.Options{}).Find(sdk.KindDataset, exe); err != nil || p.Root != root {
		t.Errorf("got the folder %q, %v, want %q, in which Python writes no bytecode", p.Root, err, root)
	}
}

func TestChecksum(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	path := script(t, "exec "+exe+" plugin backend fake")
	right := host.Sum(t, path)
	b, err := newHost(t, host.Options{Terms: sum(path, right)}).StartBackend(t.Context(), path)
	must(t, err)
	must(t, b.Close(t.Context()))
	_, err = newHost(t, host.Options{Terms: sum(path, strings.Repeat("0", 64))}).StartBackend(t.Context(), path)
	if err == nil || !strings.Contains(err.Error(), right) {
		t.Errorf("got %v", err)
	}
}

// A launcher's variables reach only the plugin that they are listed for, and the descriptor
// that one of them names comes with it.
func TestALaunchersDescriptorIsPassedOn(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	t.Setenv("PMI_FD", fmt.Sprint(w.Fd()))
	path := script(t, `echo "through $PMI_RANK" >&$PMI_FD; exit 1`)
	t.Setenv("PMI_RANK", "3")
	o := host.Options{PluginEnv: map[string][]string{path: {"PMI_*"}}}
	_, err = newHost(t, o).StartBackend(t.Context(), path)
	if !errors.As(err, new(*host.StartError)) {
		t.Fatal(err)
	}
	must(t, w.Close())
	if got, err := io.ReadAll(r); string(got) != "through 3\n" || err != nil {
		t.Errorf("read %q from the descriptor: %v", got, err)
	}
	other := script(t, `echo "[$PMI_FD$PMI_RANK]" >&2; exit 1`)
	_, err = newHost(t, o).StartBackend(t.Context(), other)
	if failed := (*host.StartError)(nil); !errors.As(err, &failed) || !slices.Contains(failed.LastLines, "[]") {
		t.Errorf("another plugin: %v", err)
	}
	t.Setenv("PMI_FD", "1000000")
	if _, err := newHost(t, o).StartBackend(t.Context(), path); err == nil || !strings.Contains(err.Error(), "PMI_FD=1000000 names no open descriptor") {
		t.Errorf("a descriptor that is not open: %v", err)
	}
}

func TestEnvironmentIsFiltered(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "x")
	t.Setenv("MY_FLAG", "y")
	path := script(t, `env | grep -E '^(SECRET|MY_FLAG|GIVEN)' >&2; exit 1`)
	_, err := newHost(t, host.Options{Env: []string{"MY_*"}, SetEnv: []string{"GIVEN=z"}}).StartBackend(t.Context(), path)
	var failed *host.StartError
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	for _, kv := range failed.LastLines {
		if strings.HasPrefix(kv, "SECRET") {
			t.Errorf("the plugin sees %s", kv)
		}
	}
	if !slices.Contains(failed.LastLines, "MY_FLAG=y") || !slices.Contains(failed.LastLines, "GIVEN=z") {
		t.Errorf("the plugin sees %q", failed.LastLines)
	}
}

// A batch system that signals all processes of a job must not take the
// backend away from a rank that has yet to write its checkpoint.
func TestSignalsDoNotEndAPlugin(t *testing.T) {
	b, arena := startBackend(t, newHost(t, host.Options{}), "ok", time.Minute)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		must(t, syscall.Kill(b.PID(), s))
	}
	for i := range 100 {
		ticket, err := b.Submit(allReduce(arena, uint64(i+1), 0, 1))
		must(t, err)
		must(t, b.Wait(ticket))
	}
}

// counted counts records by whether they are a plugin's line or the host's word
// about lines that it left out.
type counted struct {
	slog.Handler
	mu             sync.Mutex
	lines, dropped int64
	plugin         string // of the host's word
}

func (c *counted) WithAttrs(attrs []slog.Attr) slog.Handler {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range attrs {
		if a.Key == "plugin" {
			c.plugin = a.Value.String()
		}
	}
	return c
}

func (c *counted) Enabled(context.Context, slog.Level) bool { return true }

func (c *counted) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasPrefix(r.Message, "line ") {
		c.lines++
	}
	if r.Level == slog.LevelWarn {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "dropped" {
				c.dropped += a.Value.Int64()
			}
			return true
		})
	}
	return nil
}

// A plugin that floods its standard output works on, its lines are limited, and what
// was left out is counted under its name.
func TestFloodOfAProcess(t *testing.T) {
	log := &counted{Handler: slog.DiscardHandler}
	began := time.Now()
	d := openFake(t, newHost(t, host.Options{Log: slog.New(log)}), "fake", "flood", 0)
	must(t, d.Request(0, sdk.Train, 0, 1, []int64{7}))
	_, _, err := d.Wait(0)
	must(t, err)
	must(t, d.Close(context.Background()))
	most := int64(2000 + 200*(time.Since(began).Seconds()+1))
	if log.lines < 2000 || log.lines > most || log.dropped == 0 || log.lines+log.dropped > floodLines || log.plugin != "fake" {
		t.Errorf("of %d lines %d were logged, at most %d are right; %d were reported as dropped, of plugin %q", floodLines, log.lines, most, log.dropped, log.plugin)
	}
}

// openFake starts a data set that is the fake one, with a slot for a sample.
func openFake(t *testing.T, h *host.Host, plugin, mode string, timeout time.Duration) *host.Dataset {
	t.Helper()
	d, err := h.StartDataset(t.Context(), plugin)
	must(t, err)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	d.Timeout = timeout
	if _, err := d.Open(t.Context(), sdk.DatasetRequest{Options: sdk.Options{"broken": false, "mode": mode}, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	must(t, d.Prepare(1, 1))
	return d
}
