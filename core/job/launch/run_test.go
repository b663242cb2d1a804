package launch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/fulldisk"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
)

func run(t *testing.T, o Options) (Result, string) {
	t.Helper()
	log := &buffer{}
	o.Log = log
	if o.Signals == nil {
		o.Signals = make(chan os.Signal)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	res, err := Run(ctx, o)
	if err != nil {
		t.Errorf("%v\n%s", err, log)
	}
	return res, log.String()
}

// The rank that another one blames is the root cause whichever of them ends first.
// The rank that blames it is the root cause only if no other rank fails.
func TestBlamedRankIsRootCause(t *testing.T) {
	for role, root := range map[string]int{"blame:" + filepath.Join(t.TempDir(), "fails"): 1, "exit:0:7": 0} {
		res, log := run(t, Options{Nproc: 2, Grace: 5 * time.Second, Command: asRole(role)})
		f := res.Failure()
		if f == nil || f.Root.Rank != root || res.ExitCode != ExitWorker || len(f.Others)+len(f.Stopped) != 1 {
			t.Errorf("%s: %+v %+v\n%s", role, res, f, log)
		}
	}
}

// A rank that is to blame is the root cause, and its exit code the job's, even if it takes
// longer to end than the launcher waits for it.
func TestCulpritEndsLate(t *testing.T) {
	res, log := run(t, Options{Nproc: 2, Grace: 5 * time.Second, Command: asRole("late:" + filepath.Join(t.TempDir(), "ready"))})
	f := res.Failure()
	if f == nil || f.Root.Rank != 1 || res.ExitCode != ExitCheckpoint || len(f.Others) != 1 || f.Others[0].Rank != 0 {
		t.Errorf("%+v %+v\n%s", res, f, log)
	}
}

// An exit code of 0 says little: a rank is done when it says so. The one that
// ends before is to blame, also if another one notices it and ends first.
func TestEndsBeforeItsWorkIsDone(t *testing.T) {
	finished := func(line []byte) bool { return bytes.Contains(line, []byte("rank_done")) }
	for _, c := range []struct {
		role string
		rank int // to blame, -1: none
	}{{"exit::0", 0}, {"quit::1", 1}, {"quit::0", 0}, {"done", -1}} {
		res, log := run(t, Options{Nproc: 2, Grace: 5 * time.Second, MaxRestarts: 1, Finished: finished, Command: func(w rank.World) Command {
			return asRole(strings.Replace(c.role, "::", fmt.Sprintf(":%d:", w.Rank), 1))(w)
		}})
		f := res.Failure()
		if c.rank < 0 {
			if res.ExitCode != ExitOK || f != nil {
				t.Errorf("%s: %+v\n%s", c.role, res, log)
			}
			continue
		}
		if res.ExitCode != ExitWorker || res.Restarts != 1 || f == nil || f.Root.ExitCode != 0 || c.role != "exit::0" && f.Root.Rank != c.rank {
			t.Errorf("%s: %+v\n%s", c.role, res, log)
			continue
		}
		if text := f.Format(); !strings.Contains(text, "ended before its work was done") || !strings.Contains(log, "ended before its work was done") {
			t.Errorf("%s:\n%s%s", c.role, log, text)
		}
	}
}

func TestRunGivesEachRankItsEnvironment(t *testing.T) {
	got := map[int]map[string]string{}
	res, log := run(t, Options{Nproc: 3, Threads: 2, RunID: "id", MaxRestarts: 4, Command: asRole("env"), OnEvent: func(r int, line []byte) {
		env := map[string]string{}
		json.Unmarshal(line, &env)
		got[r] = env
	}})
	if res.ExitCode != ExitOK || len(got) != 3 {
		t.Fatalf("%+v\n%s", res, log)
	}
	for r, env := range got {
		w, err := rank.FromEnv(func(k string) (string, bool) { v, ok := env[k]; return v, ok })
		if err != nil {
			t.Fatal(err)
		}
		want := rank.World{Rank: r, Size: 3, LocalRank: r, LocalSize: 3, Nodes: 1, MasterAddr: "127.0.0.1", MasterPort: w.MasterPort,
			RunID: "id", MaxRestarts: 4, Source: "trainctl"}
		if w != want {
			t.Errorf("rank %d reads %+v", r, w)
		}
		if env["GOMAXPROCS"] != "2" || env["TORCHELASTIC_RUN_ID"] != "id" || env[secret.Env] != "" {
			t.Errorf("rank %d: %v", r, env)
		}
	}
}

func TestRanksMeetInTheLaunchersStore(t *testing.T) {
	var got []string
	res, log := run(t, Options{Nproc: 3, Command: asRole("meet"), OnEvent: func(_ int, line []byte) { got = append(got, string(line)) }})
	slices.Sort(got)
	want := `{"all":"0 1 2","node":0,"rank":0} {"all":"0 1 2","node":0,"rank":1} {"all":"0 1 2","node":0,"rank":2}`
	if res.ExitCode != ExitOK || strings.Join(got, " ") != want {
		t.Errorf("%+v %v\n%s", res, got, log)
	}
}

func TestExitCodes(t *testing.T) {
	for worker, want := range map[int]int{0: 0, 1: 5, panicked: 5, 3: 3, 4: 4, 5: 5, 6: 6, ExitRefused: 2, 42: 5, 75: 75} {
		res, log := run(t, Options{Nproc: 1, Command: asRole(fmt.Sprintf("exit:0:%d", worker))})
		if res.ExitCode != want || (res.Failure() == nil) != (want == 0) {
			t.Errorf("worker %d: %+v\n%s", worker, res, log)
		}
	}
}

func TestFirstFailureWins(t *testing.T) {
	fs := afero.NewMemMapFs()
	res, log := run(t, Options{Name: "job", Nproc: 3, Grace: 5 * time.Second, Command: asRole("exit:1:9"), FS: fs, LogDir: "logs"})
	f := res.Failure()
	if f == nil || res.ExitCode != ExitWorker {
		t.Fatalf("%+v\n%s", res, log)
	}
	c := f.Root
	if c.Rank != 1 || c.ExitCode != 9 || c.Step != 41 || c.Phase != "backward" || c.PID == 0 || !slices.Contains(c.LastLines, "about to fail") {
		t.Errorf("root cause %+v", c)
	}
	if !slices.Equal(f.Stopped, []int{0, 2}) {
		t.Errorf("stopped %v, others %+v", f.Stopped, f.Others)
	}
	if !strings.Contains(log, "[rank 1] about to fail\n") {
		t.Errorf("log:\n%s", log)
	}
	if text, err := afero.ReadFile(fs, "logs/rank-1.log"); len(text) < stampLen || string(text[stampLen:]) != "about to fail\n" {
		t.Errorf("file: %q %v", text, err)
	}
}

func TestKilledRankIsNamed(t *testing.T) {
	onEvent, ready := pids(3)
	killed := make(chan map[int]int, 1)
	go func() {
		all := <-ready
		syscall.Kill(all[1], syscall.SIGKILL)
		killed <- all
	}()
	res, log := run(t, Options{Name: "job", Nproc: 3, Grace: time.Second, Command: asRole("idle"), OnEvent: onEvent})
	all := <-killed
	for _, pid := range all {
		if alive(pid) {
			t.Errorf("process %d outlived Run", pid)
		}
	}
	f := res.Failure()
	if f == nil || f.Root.Rank != 1 || f.Root.PID != all[1] || f.Root.Signal != "SIGKILL" || res.ExitCode != ExitWorker {
		t.Fatalf("%+v\n%s", res, log)
	}
	block := f.Format()
	for _, want := range []string{"job FAILED", "rank      : 1 (local_rank: 1)", fmt.Sprintf("pid       : %d", all[1]),
		fmt.Sprintf("-9 (Signal 9 (SIGKILL) received by PID %d)", all[1])} {
		if !strings.Contains(block, want) {
			t.Errorf("no %q in\n%s", want, block)
		}
	}
}

// A rank that panics, or that a fault or a signal from outside ends, is reported by
// the message, the signal's name, the file and line and the frames of ours; its
// log has the whole dump, the terminal none of it.
func TestCrashesAreToldInShort(t *testing.T) {
	place := regexp.MustCompile(`(?m)^  at        : core/job/launch/main_test\.go:\d+$`)
	frames := regexp.MustCompile(`(?m)^    \| core/job/launch\.\(\*crasher\)\.boom at core/job/launch/main_test\.go:\d+\n    \| core/job/launch\.playPanic at core/job/launch/main_test\.go:\d+$`)
	for how, want := range map[string][]string{
		"panic:1:value": {"  crash     : panic: the loss is not a number\n                of layer fc\n", "please report it"},
		"panic:1:nil":   {"  crash     : panic: runtime error: invalid memory address", "  signal    : SIGSEGV: segmentation violation, at address 0x0", "TRAINCTL_CPU=generic"},
	} {
		for _, level := range []string{"single", "all", "system", "crash"} {
			dir := t.TempDir()
			res, log := run(t, Options{Nproc: 2, Grace: 5 * time.Second, LogDir: dir, Command: func(w rank.World) Command {
				c := asRole(how)(w)
				c.Env = append(c.Env, "GOTRACEBACK="+level)
				return c
			}})
			f := res.Failure()
			if f == nil || f.Root.Rank != 1 || f.Root.Crash == nil {
				t.Fatalf("%s, %s: %+v\n%s", how, level, res, log)
			}
			text := f.Format()
			for _, w := range append(want, "    | about to crash\n") {
				if !strings.Contains(text, w) {
					t.Errorf("%s, %s: %q is not in\n%s", how, level, w, text)
				}
			}
			if !place.MatchString(text) || !frames.MatchString(text) || strings.Contains(text+log, "goroutine ") {
				t.Errorf("%s, %s: terminal\n%sblock\n%s", how, level, log, text)
			}
			all, err := os.ReadFile(f.Root.Log)
			if err != nil || !bytes.Contains(all, []byte("goroutine 1 ")) || level == "crash" && !bytes.Contains(all, []byte(" fp=0x")) {
				t.Errorf("%s, %s: %v, the log:\n%s", how, level, err, all)
			}
		}
	}
}

func TestStubbornRankIsKilled(t *testing.T) {
	onEvent, ready := pids(2)
	sent := make(chan int, 1)
	go func() {
		all := <-ready
		syscall.Kill(all[0], syscall.SIGKILL)
		sent <- all[1]
	}()
	res, log := run(t, Options{Nproc: 2, Grace: 50 * time.Millisecond, Command: asRole("stubborn"), OnEvent: onEvent})
	if alive(<-sent) || res.ExitCode != ExitWorker {
		t.Errorf("%+v\n%s", res, log)
	}
}

// kill -9 of the launcher leaves neither ranks nor their children.
func TestKilledLauncherTakesAllWithIt(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), roleEnv+"=launcher")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var all []int
	for sc := bufio.NewScanner(out); len(all) < 4 && sc.Scan(); {
		var e struct{ PID int }
		if json.Unmarshal(sc.Bytes(), &e) == nil && e.PID != 0 {
			all = append(all, e.PID)
		}
	}
	c.Process.Kill()
	c.Wait()
	if len(all) != 4 {
		t.Fatalf("ranks and children: %v", all)
	}
	for _, pid := range all {
		waitGone(t, pid)
	}
}

func TestRestarts(t *testing.T) {
	var attempts []int
	o := Options{Nproc: 2, MaxRestarts: 2, Command: asRole("once"), Prepare: func(_ context.Context, n int, ws []rank.World) error {
		attempts = append(attempts, n)
		if ws[1].RestartCount != n {
			t.Errorf("attempt %d: %v", n, ws[1].RestartCount)
		}
		return nil
	}}
	res, log := run(t, o)
	if res.ExitCode != ExitOK || res.Restarts != 1 || len(res.Failures) != 1 || res.Failure() != nil || !slices.Equal(attempts, []int{0, 1}) {
		t.Errorf("%+v %v\n%s", res, attempts, log)
	}

	o.Command, attempts = asRole("exit:0:1"), nil
	if res, _ := run(t, o); res.ExitCode != ExitWorker || res.Restarts != 2 || len(res.Failures) != 3 {
		t.Errorf("%+v", res)
	}
	for _, code := range []int{ExitRefused, 3, 6, 75} {
		o.Command = asRole(fmt.Sprintf("exit:0:%d", code))
		if res, _ := run(t, o); res.ExitCode != jobCode(code) || res.Restarts != 0 {
			t.Errorf("exit code %d was restarted: %+v", code, res)
		}
	}
}

func TestSignals(t *testing.T) {
	for _, tc := range []struct {
		role string
		send []os.Signal
		want int
	}{
		{"drain::0", []os.Signal{syscall.SIGTERM}, ExitTerminated},
		{"drain::75", []os.Signal{syscall.SIGTERM}, ExitPreempted},
		{"drain::75", []os.Signal{syscall.SIGINT}, ExitInterrupt},
		{"drain::75", []os.Signal{syscall.SIGHUP}, ExitPreempted},
		{"drain::1", []os.Signal{syscall.SIGTERM}, ExitFailed}, // they could not save
		{"drain::7", []os.Signal{syscall.SIGTERM}, ExitTerminated},
		{"idle", []os.Signal{syscall.SIGTERM}, ExitTerminated},
		{"drain::75", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, ExitPreempted}, // as timeout(1) does, at once
	} {
		role := strings.Replace(tc.role, "::", ":", 1)
		onEvent, ready := pids(2)
		signals := make(chan os.Signal, 2)
		go func() {
			<-ready
			for _, s := range tc.send {
				signals <- s
			}
		}()
		cmd := asRole(role)
		if strings.HasPrefix(role, "drain") {
			_, code, _ := strings.Cut(role, ":")
			cmd = func(w rank.World) Command { return asRole(fmt.Sprintf("drain:%d:%s", w.Rank, code))(w) }
		}
		res, log := run(t, Options{Nproc: 2, Grace: time.Hour, Command: cmd, OnEvent: onEvent, Signals: signals})
		failed := tc.want == ExitFailed
		if f := res.Failure(); (f != nil) != failed || failed && (f.Root.Rank != 0 || f.Root.ExitCode != ExitFailed) {
			t.Errorf("%s %v: %+v\n%s", tc.role, tc.send, f, log)
		}
		if res.ExitCode != tc.want || res.Signal != tc.send[0] {
			t.Errorf("%s %v: %+v\n%s", tc.role, tc.send, res, log)
		}
	}
}

// A signal that comes when the run is over does not keep the caller from telling
// how it ended.
func TestSignalAfterTheEnd(t *testing.T) {
	res, err := Run(t.Context(), Options{Nproc: 1, Command: asRole("exit:0:7")})
	if err != nil || res.Failure() == nil {
		t.Fatalf("%+v %v", res, err)
	}
	for _, s := range StopSignals() {
		if err := syscall.Kill(os.Getpid(), s.(syscall.Signal)); err != nil { // which would end this test
			t.Fatal(err)
		}
	}
}

// A signal that comes when all ranks have done their work does not interrupt the run.
func TestSignalWhenAllIsDone(t *testing.T) {
	for role, want := range map[string]int{"finishing": ExitOK, "idle": ExitTerminated} {
		onEvent, ready := pids(2)
		signals := make(chan os.Signal, 1)
		go func() { <-ready; signals <- syscall.SIGTERM }()
		res, log := run(t, Options{Nproc: 2, Grace: time.Hour, Command: asRole(role), OnEvent: onEvent, Signals: signals,
			Finished: func(line []byte) bool { return bytes.Contains(line, []byte("rank_done")) }})
		if res.ExitCode != want || (res.Signal == nil) != (want == ExitOK) || res.Failure() != nil {
			t.Errorf("%s: %+v\n%s", role, res, log)
		}
	}
}

// Repeated Ctrl-C kills the ranks.
func TestSecondSignalKills(t *testing.T) {
	onEvent, ready := pids(2)
	signals := make(chan os.Signal)
	over := make(chan struct{})
	go func() {
		<-ready
		for {
			select {
			case signals <- syscall.SIGINT:
				time.Sleep(10 * time.Millisecond) // as a keyboard repeats
			case <-over:
				return
			}
		}
	}()
	res, log := run(t, Options{Nproc: 2, Grace: time.Hour, Command: asRole("stubborn"), OnEvent: onEvent, Signals: signals})
	close(over)
	if res.ExitCode != ExitInterrupt || res.Signal != syscall.SIGINT {
		t.Errorf("%+v\n%s", res, log)
	}
}

// A signal that comes while a failed attempt is being ended is heard: there is
// no other attempt.
func TestSignalBetweenAttempts(t *testing.T) {
	onEvent, ready := pids(2)
	signals := make(chan os.Signal)
	slow := make(chan int, 1)
	go func() {
		all := <-ready
		slow <- all[1]
		syscall.Kill(all[0], syscall.SIGKILL)
	}()
	res, log := run(t, Options{Nproc: 2, MaxRestarts: 5, Grace: time.Hour, Command: asRole("slow"), Signals: signals,
		OnEvent: func(r int, line []byte) {
			if onEvent(r, line); strings.Contains(string(line), "asked") {
				go func() {
					signals <- syscall.SIGTERM
					syscall.Kill(<-slow, syscall.SIGKILL)
				}()
			}
		}})
	if res.ExitCode != ExitTerminated || res.Signal != syscall.SIGTERM || res.Restarts != 0 || len(res.Failures) != 1 || !strings.Contains(log, "no restart") {
		t.Errorf("%+v\n%s", res, log)
	}
}

func TestCancelledContextEndsTheRun(t *testing.T) {
	onEvent, ready := pids(2)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-ready; cancel() }()
	res, err := Run(ctx, Options{Nproc: 2, Grace: time.Second, Command: asRole("idle"), OnEvent: onEvent, Signals: make(chan os.Signal)})
	if !errors.Is(err, context.Canceled) || res.ExitCode != ExitTerminated {
		t.Errorf("%+v %v", res, err)
	}
}

func TestCommandThatCannotStart(t *testing.T) {
	res, err := Run(t.Context(), Options{Nproc: 2, Signals: make(chan os.Signal), Command: func(w rank.World) Command {
		if w.Rank == 0 {
			return asRole("idle")(w)
		}
		return Command{Path: "/does/not/exist"}
	}})
	if err == nil || !strings.Contains(err.Error(), "cannot start rank 1") || res.ExitCode != ExitFailed {
		t.Errorf("%+v %v", res, err)
	}
}

func TestEndlessLine(t *testing.T) {
	fs := afero.NewMemMapFs()
	res, log := run(t, Options{Nproc: 1, Command: asRole("long"), FS: fs, LogDir: "logs"})
	if res.ExitCode != ExitOK || strings.Count(log, "x") != 10<<20 {
		t.Errorf("%+v, %d bytes logged", res, len(log))
	}
	if text, _ := afero.ReadFile(fs, "logs/rank-0.log"); len(text) != stampLen+(10<<20)+1 || strings.Count(string(text), "x") != 10<<20 {
		t.Errorf("file has %d bytes", len(text))
	}
}

func TestOutputStaysWhole(t *testing.T) {
	fs := afero.NewMemMapFs()
	_, log := run(t, Options{Nproc: 3, Command: asRole("chat"), FS: fs, LogDir: "logs"})
	got, want := map[string]int{}, map[string]int{}
	for line := range strings.Lines(log) {
		got[line]++
	}
	for r := range 3 {
		for i := range 2 {
			for n := range 500 {
				want[fmt.Sprintf("[rank %d] %d stream %d line %d %s\n", r, r, i, n, strings.Repeat("-", n))]++
			}
		}
		text, err := afero.ReadFile(fs, fmt.Sprintf("logs/rank-%d.log", r))
		if err != nil || strings.Count(string(text), "\n") != 1000 || strings.Contains(string(text), "[rank") {
			t.Errorf("file of rank %d: %d bytes, %v", r, len(text), err)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d different lines, want %d", len(got), len(want))
	}
}

func TestFullDiskIsAWarning(t *testing.T) {
	disk := &fulldisk.FS{Fs: afero.NewMemMapFs(), Room: 1000}
	res, log := run(t, Options{Nproc: 1, Command: asRole("chat"), FS: disk, LogDir: "logs"})
	if res.ExitCode != ExitOK || strings.Count(log, "cannot write logs/rank-0.log: no space left on device") != 1 || strings.Count(log, "[rank 0]") != 1000 {
		t.Errorf("%+v, %d lines, %d warnings", res, strings.Count(log, "\n"), strings.Count(log, "cannot write"))
	}
}
