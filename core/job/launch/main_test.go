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
	if f := roles[act]; f != nil {
		return f(arg, rest)
	}
	return 0
}

// roles are what a rank can do. arg is what follows "role:rank:", and rest what
// follows "role:". A role that is not listed exits with 0 at once.
var roles = map[string]func(arg, rest string) int{
	"idle": func(_, _ string) int {
		ready()
		time.Sleep(time.Hour)
		return 0
	},
	"exit": func(arg, _ string) int {
		fmt.Fprintln(os.Stderr, "about to fail")
		tell(map[string]any{"event": "step", "step": 41, "phase": "backward"})
		return number(arg)
	},
	"hung": func(_, _ string) int { // a rank whose plugin hangs
		tell(map[string]any{"event": "plugin_failed", "kind": "backend", "name": "star", "pid": 7, "operation": "all_reduce #14", "hung": true, "cause": "silent"})
		return 1
	},
	"panic": func(arg, _ string) int { return playPanic(arg) },
	"quit": func(arg, _ string) int { // one rank as if all had gone well, the others when it is gone
		if os.Getenv("RANK") == arg {
			return 0
		}
		fmt.Println("the other one is gone")
		return ExitPeer
	},
	"done": func(_, _ string) int {
		tell(map[string]any{"event": "rank_done"})
		return 0
	},
	"blame": func(_, file string) int { // rank 0 blames rank 1, which fails by itself, and says so by a file
		if os.Getenv("RANK") == "0" {
			awaitFile(file)
			return ExitPeer
		}
		_ = os.WriteFile(file, nil, 0o600)
		return 1
	},
	"late": func(_, rest string) int { return playLate(rest) },
	"once": func(_, _ string) int { // fails in the first attempt only
		if os.Getenv("TORCHELASTIC_RESTART_COUNT") == "0" {
			return 1
		}
		return 0
	},
	"env": func(_, _ string) int {
		env := map[string]string{}
		for _, kv := range os.Environ() {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		tell(env)
		return 0
	},
	"stubborn": func(_, _ string) int {
		signal.Ignore(syscall.SIGTERM)
		ready()
		time.Sleep(time.Hour)
		return 0
	},
	"drain": func(arg, _ string) int {
		readyUntilTerm()
		return number(arg)
	},
	"saving": func(arg, _ string) int { // for that long after SIGTERM
		readyUntilTerm()
		takes, _ := time.ParseDuration(arg)
		time.Sleep(takes)
		return ExitPreempted
	},
	"finishing": func(_, _ string) int { // its work is done when SIGTERM comes
		readyUntilTerm()
		tell(map[string]any{"event": "rank_done"})
		return 0
	},
	"finished": func(_, _ string) int { // before any signal
		signal.Ignore(syscall.SIGTERM)
		tell(map[string]any{"event": "rank_done"})
		return 0
	},
	"slow": func(_, _ string) int { // to end
		readyUntilTerm()
		tell(map[string]any{"event": "asked"})
		time.Sleep(time.Hour)
		return 0
	},
	"long": func(_, _ string) int {
		os.Stdout.Write(bytes.Repeat([]byte("x"), 10<<20))
		return 0
	},
	"chat": func(_, _ string) int {
		chat()
		return 0
	},
	"parent": func(_, _ string) int { return playParent() },
	"meet":   func(_, _ string) int { return playMeet() },
}

//go:noinline
func playPanic(how string) int {
	fmt.Fprintln(os.Stderr, "about to crash")
	(*crasher)(nil).boom(how)
	return 0
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func ready() { tell(map[string]any{"event": "ready", "pid": os.Getpid()}) }

// readyUntilTerm tells that the rank is ready, and waits for SIGTERM.
func readyUntilTerm() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	ready()
	<-c
}

// playLate lets rank 0 blame rank 1, which ends by itself, but only when it is asked
// to. It says by a file that it listens.
func playLate(file string) int {
	if os.Getenv("RANK") == "0" {
		awaitFile(file)
		return ExitPeer
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	if os.WriteFile(file, nil, 0o600) == nil {
		<-c
	}
	return ExitCheckpoint
}

// awaitFile returns when a file is there.
func awaitFile(path string) {
	for _, err := os.Stat(path); err != nil; _, err = os.Stat(path) {
		time.Sleep(time.Millisecond)
	}
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
	ready()
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
	for deadline := time.Now().Add(time.Minute); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}
