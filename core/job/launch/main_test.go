package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trainctl/trainctl/core/job/rank"
)

// The test binary is also the rank, its child and a launcher: roleEnv says
// which, "act:rank:argument" means that only this rank acts and the others idle.
const roleEnv = "LAUNCH_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

func play(role string) int {
	switch role {
	case "launcher":
		return playLauncher(Options{Nproc: 2, Grace: time.Second, Command: asRole("parent")})
	case "far":
		return playLauncher(farOptions(os.Getenv("LAUNCH_TEST_ENDPOINT"), 1))
	}
	WatchLifeline(nil)
	act, rest, _ := strings.Cut(role, ":")
	who, arg, targeted := strings.Cut(rest, ":")
	if targeted && who != os.Getenv("RANK") {
		act = "idle"
	}
	switch act {
	case "idle":
		tell(map[string]any{"event": "ready", "pid": os.Getpid()})
		time.Sleep(time.Hour)
	case "exit":
		fmt.Fprintln(os.Stderr, "about to fail")
		tell(map[string]any{"event": "step", "step": 41, "phase": "backward"})
		code, _ := strconv.Atoi(arg)
		return code
	case "hung": // a rank whose plugin hangs
		tell(map[string]any{"event": "plugin_failed", "kind": "backend", "name": "star", "pid": 7, "operation": "all_reduce #14", "hung": true, "cause": "silent"})
		return 1
	case "panic":
		fmt.Fprintln(os.Stderr, "about to crash")
		(*crasher)(nil).boom(arg)
	case "quit": // one rank as if all had gone well, the others when it is gone
		if os.Getenv("RANK") != arg {
			fmt.Println("the other one is gone")
			return ExitPeer
		}
	case "done":
		tell(map[string]any{"event": "rank_done"})
	case "blame": // rank 0 blames the others, which fail by themselves
		if os.Getenv("RANK") == "0" {
			return ExitPeer
		}
		return 1
	case "late": // rank 0 blames rank 1, which ends by itself, but only when it is asked to
		if os.Getenv("RANK") == "0" {
			for _, err := os.Stat(rest); err != nil; _, err = os.Stat(rest) {
				time.Sleep(time.Millisecond)
			}
			return ExitPeer
		}
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		if os.WriteFile(rest, nil, 0o600) == nil {
			<-c
		}
		return ExitCheckpoint
	case "once": // fails in the first attempt only
		if os.Getenv("TORCHELASTIC_RESTART_COUNT") == "0" {
			return 1
		}
	case "env":
		env := map[string]string{}
		for _, kv := range os.Environ() {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		tell(env)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		tell(map[string]any{"event": "ready", "pid": os.Getpid()})
		time.Sleep(time.Hour)
	case "drain":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		tell(map[string]any{"event": "ready", "pid": os.Getpid()})
		<-c
		code, _ := strconv.Atoi(arg)
		return code
	case "saving": // for that long when it is asked to end
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		tell(map[string]any{"event": "ready", "pid": os.Getpid()})
		<-c
		takes, _ := time.ParseDuration(arg)
		time.Sleep(takes)
		return ExitPreempted
	case "slow": // to end
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		tell(map[string]any{"event": "ready", "pid": os.Getpid()})
		<-c
		tell(map[string]any{"event": "asked"})
		time.Sleep(time.Hour)
	case "long":
		os.Stdout.Write(bytes.Repeat([]byte("x"), 10<<20))
	case "chat":
		chat()
	case "parent":
		return playParent()
	case "meet":
		return playMeet()
	}
	return 0
}

type crasher struct{ value int }

//go:noinline
func (c *crasher) boom(how string) {
	if how == "value" {
		panic("the loss is not a number\nof layer fc")
	}
	c.value = 1
}

func tell(v any) {
	line, _ := json.Marshal(v)
	EventFile().Write(append(line, '\n'))
}

func chat() {
	var wg sync.WaitGroup
	for i, f := range []io.Writer{os.Stdout, os.Stderr} {
		wg.Go(func() {
			for n := range 500 {
				fmt.Fprintf(f, "%s stream %d line %d %s\n", os.Getenv("RANK"), i, n, strings.Repeat("-", n))
			}
		})
	}
	wg.Wait()
}

// playParent starts a child that leaves the group and session, then idles. It
// tells of itself first, and the child of itself after that.
func playParent() int {
	tell(map[string]any{"event": "ready", "pid": os.Getpid()})
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), roleEnv+"=idle", EnvLifelineFD+"=3", EnvEventFD+"=4")
	c.ExtraFiles = []*os.File{Lifeline(), EventFile()}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return 9
	}
	time.Sleep(time.Hour)
	return 0
}

// playMeet joins the job's store and exchanges ranks.
func playMeet() int {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	w, err := rank.FromEnv(os.LookupEnv)
	if err != nil {
		fmt.Println(err)
		return ExitRefused
	}
	s, err := rank.Join(ctx, w, rank.JoinOptions{})
	if err != nil {
		fmt.Println(err)
		return ExitRendezvous
	}
	defer s.Close()
	all, err := rank.Exchange(ctx, s, "k", w.Rank, w.Size, []byte(strconv.Itoa(w.Rank)))
	if err != nil {
		fmt.Println(err)
		return ExitRendezvous
	}
	tell(map[string]any{"rank": w.Rank, "node": w.NodeRank, "all": string(bytes.Join(all, []byte(" ")))})
	return 0
}

// playLauncher runs a launcher in a process that a test can kill; the pids that
// it hears of go to standard output.
func playLauncher(o Options) int {
	o.OnEvent = func(_ int, line []byte) { os.Stdout.Write(append(line, '\n')) }
	res, _ := Run(context.Background(), o)
	return res.ExitCode
}

// asRole starts this binary again as a rank.
func asRole(role string) func(rank.World) Command {
	return func(rank.World) Command {
		return Command{Path: os.Args[0], Env: []string{roleEnv + "=" + role, "GORACE=atexit_sleep_ms=0"}}
	}
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// pids collects the process ids that ranks tell of.
func pids(n int) (onEvent func(int, []byte), all <-chan map[int]int) {
	got, c := map[int]int{}, make(chan map[int]int, 1)
	count := 0
	return func(r int, line []byte) {
		var e struct{ PID int }
		if json.Unmarshal(line, &e) != nil || e.PID == 0 {
			return
		}
		got[r] = e.PID
		if count++; count == n {
			c <- got
		}
	}, c
}

// alive is false for a process that is gone or waits to be collected.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat[bytes.LastIndexByte(stat, ')'):]), " Z ")
}

func waitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}
