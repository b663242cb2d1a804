package observer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/observer"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
)

// The test binary serves the observer that it tests with.
func TestMain(m *testing.M) {
	host.ServeBuiltin(builtins, os.Args[1:])
	goleak.VerifyTestMain(m)
}

var builtins = []host.Builtin{{Kind: sdk.KindObserver, Name: "fake", Plugin: sdk.Plugin{Observer: func() sdk.Observer { return &fake{} }}}}

// fake writes what it gets to a file. mode says what goes wrong, in the first process.
type fake struct {
	path, mode string
	again      bool
}

func (f *fake) Info() sdk.Info {
	return sdk.Info{Name: "fake", Version: "1", Summary: "writes what it gets", Options: []sdk.Option{
		{Name: "path", Type: sdk.String, Required: true, Doc: "File that is written."},
		{Name: "mode", Type: sdk.String, Default: "ok", Doc: "What goes wrong."},
	}}
}

func (f *fake) Open(_ context.Context, req sdk.ObserverRequest) (string, error) {
	f.path, f.mode, f.again = req.Options.String("path"), req.Options.String("mode"), req.Resume != ""
	if f.mode == "open" {
		return "", errors.New("no server answers")
	}
	return "resumed", f.write(fmt.Appendf(nil, "open %q %v %v\n", req.Resume, req.Name, req.Config["optimizer.lr"]))
}

func (f *fake) write(text []byte) error {
	out, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return errors.Join(err, out.Close())
}

func (f *fake) Observe(ctx context.Context, e *sdk.EventBatch) error {
	switch {
	case f.again:
	case f.mode == "exit":
		os.Exit(3)
	case f.mode == "panic":
		panic("the observer is broken")
	case f.mode == "refuse", f.mode == "lost":
		return errors.New("the server refuses")
	case f.mode == "deaf":
		select {}
	}
	var text []byte
	for _, r := range e.Records {
		text = append(append(text, r.JSON...), '\n')
	}
	if e.Summary != nil {
		text = fmt.Appendf(text, "summary %s\n", e.Summary)
	}
	return f.write(text)
}

func (f *fake) Close() error {
	switch {
	case f.path == "":
		return nil
	case f.mode == "lost", f.mode == "late":
		return errors.New("the server refuses the end")
	}
	return f.write([]byte("close\n"))
}

// watched is a sink with one observer, and what is known of it.
type watched struct {
	*observer.Sink
	path string
	bus  *event.Bus
	want []byte // lines of all events

	mu       sync.Mutex
	now      *host.Observer
	warnings []string
	replaced int
}

func watch(t *testing.T, mode string, restarts int, closeTimeout time.Duration) *watched {
	t.Helper()
	w := &watched{path: filepath.Join(t.TempDir(), "events")}
	h := host.New(host.Options{Builtins: builtins, StopTimeout: closeTimeout, HangTimeout: time.Minute, SetEnv: []string{"GORACE=atexit_sleep_ms=0"}})
	w.Sink = observer.New([]observer.Plugin{{Name: "fake", CloseTimeout: closeTimeout, Start: func(ctx context.Context) (observer.Instance, error) {
		o, err := h.StartObserver(ctx, "fake")
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		w.now = o
		w.mu.Unlock()
		o.Replace(host.Replacement{Restarts: restarts, Report: func(host.Replaced) { w.replaced++ }})
		req := sdk.ObserverRequest{Options: sdk.Options{"path": w.path, "mode": mode}, Name: "test", Config: map[string]any{"optimizer.lr": 0.5}}
		if err := o.Open(ctx, req); err != nil {
			return nil, errors.Join(err, o.Close(ctx))
		}
		return o, nil
	}}}, func(plugin, text string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.warnings = append(w.warnings, plugin+": "+text)
	})
	w.bus = event.NewBus(0, w.Sink, event.Func(func(r event.Record) { w.want = event.Append(w.want, r) }))
	return w
}

// run emits the events of a run of some steps.
func (w *watched) run(steps int) {
	w.bus.Emit(&event.RunStarted{Name: "test"})
	for step := range steps {
		w.bus.Emit(&event.StepDone{Step: step + 1, LossMean: 1 / float64(step+1)})
	}
	w.bus.Emit(&event.RunDone{Status: "ok", Step: steps})
}

// got returns what the observer has written.
func (w *watched) got(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(w.path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// pid waits for the observer's process to be open.
func (w *watched) pid(t *testing.T) int {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		o := w.now
		w.mu.Unlock()
		if o != nil && strings.HasPrefix(w.got(t), "open") {
			return o.PID()
		}
	}
	t.Fatal("the observer was not opened")
	return 0
}

// send sends SIGKILL or SIGSTOP and waits until no thread of the process runs any more: on a busy
// machine that takes a while.
func send(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if !slices.ContainsFunc(threads, func(path string) bool {
			stat, _ := os.ReadFile(path)
			_, state, _ := strings.Cut(string(stat), ") ")
			return state != "" && !strings.ContainsAny(state[:1], "TZX")
		}) {
			return
		}
	}
	t.Fatalf("process %d goes on after %v", pid, s)
}

// All events arrive, in order and unchanged, and the summary with the last ones.
func TestEventsArriveInOrder(t *testing.T) {
	t.Parallel()
	w := watch(t, "ok", 0, time.Minute)
	w.run(2500)
	if missed := w.End([]byte(`{"status":"ok"}`)); missed != nil || w.warnings != nil {
		t.Errorf("missed %v, warnings %q", missed, w.warnings)
	}
	want := "open \"\" test 0.5\n" + string(w.want) + "summary {\"status\":\"ok\"}\nclose\n"
	if diff := cmp.Diff(want, w.got(t)); diff != "" {
		t.Error(diff)
	}
}

// A process that dies or panics is replaced; the other one is opened with what the first returned,
// and gets the batch that was not taken.
func TestObserverIsReplaced(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exit", "panic"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := watch(t, mode, 1, time.Minute)
			w.run(10)
			if missed := w.End(nil); missed != nil || w.warnings != nil || w.replaced != 1 {
				t.Errorf("missed %v, warnings %q, replaced %d", missed, w.warnings, w.replaced)
			}
			want := "open \"\" test 0.5\nopen \"resumed\" test 0.5\n" + string(w.want) + "close\n"
			if diff := cmp.Diff(want, w.got(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever goes wrong, the run only learns how much was missed, and why.
func TestObserverFails(t *testing.T) {
	t.Parallel()
	const goesOn = "the run continues without this observer"
	for mode, c := range map[string]struct{ why, warning string }{
		"exit": {"the process ended: exit status 3", goesOn}, "open": {"no server answers", goesOn}, "refuse": {"the server refuses", ""},
		"panic": {"panic: the observer is broken at ", ""}, "deaf": {"it did not take the rest within close_timeout = 2s", ""},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			limit := time.Minute // in which it fails by itself
			if mode == "deaf" {
				limit = 2 * time.Second
			}
			w := watch(t, mode, 0, limit)
			w.run(10)
			if mode == "deaf" {
				w.pid(t) // else the time may be over before it is opened
			}
			missed := w.End(nil)
			if len(missed) != 1 || missed[0].Events != 12 || missed[0].Of != 12 || !strings.Contains(missed[0].Why, c.why) {
				t.Errorf("missed %v, want 12 of 12 events because of %q", missed, c.why)
			}
			if got := strings.Join(w.warnings, "\n"); !strings.Contains(got, c.warning) || (c.warning == "") != (got == "") {
				t.Errorf("warnings %q, want %q", got, c.warning)
			}
		})
	}
}

// An observer that cannot be closed is a warning of its own only if it took what was delivered before: else it is said once what is wrong.
func TestCloseFails(t *testing.T) {
	t.Parallel()
	for mode, c := range map[string]struct{ missed, warnings int }{"lost": {1, 0}, "late": {0, 1}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := watch(t, mode, 0, time.Minute)
			w.run(10)
			if missed := w.End(nil); len(missed) != c.missed || len(w.warnings) != c.warnings {
				t.Errorf("missed %v, warnings %q, want %d and %d", missed, w.warnings, c.missed, c.warnings)
			}
		})
	}
}

// Killed and stopped processes do not delay the run's end beyond the limit, and none is left.
func TestObserverIsKilledOrStopped(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watch(t, "ok", 0, 2*time.Second)
			w.bus.Emit(&event.RunStarted{})
			pid := w.pid(t)
			send(t, pid, sent)
			w.run(100)
			missed := w.End(nil)
			if len(missed) != 1 || missed[0].Events < 102 { // the first event may have arrived
				t.Errorf("missed %v", missed)
			}
			if err := syscall.Kill(-pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the process is still there: %v", err)
			}
		})
	}
}

// An observer that cannot keep up gets fewer steps, and all other events.
func TestSlowObserver(t *testing.T) {
	t.Parallel()
	w := watch(t, "ok", 0, time.Minute)
	w.bus.Emit(&event.RunStarted{})
	pid := w.pid(t)
	send(t, pid, syscall.SIGSTOP)
	const steps = 30_000 // twice what the queue holds
	for step := range steps {
		w.bus.Emit(&event.StepDone{Step: step})
		if step%1000 == 0 {
			w.bus.Emit(&event.EvalDone{Step: step})
		}
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	missed := w.End(nil)
	if len(missed) != 1 || !strings.Contains(missed[0].Why, "it is slower than the run") {
		t.Fatalf("missed %v", missed)
	}
	got := w.got(t)
	lines, evals := strings.Count(got, `"event"`), strings.Count(got, `"event":"eval"`)
	if evals != steps/1000 || lines+missed[0].Events != missed[0].Of || missed[0].Of != steps+steps/1000+1 {
		t.Errorf("%d events, %d of them evaluations; %v", lines, evals, missed)
	}
}

// Observers start with rank 0, and do not get what they print themselves.
func TestWhatObserversDoNotGet(t *testing.T) {
	t.Parallel()
	w := watch(t, "ok", 0, time.Minute)
	w.Emit(event.Record{Rank: 1, Event: &event.Warning{Message: "of a host without rank 0"}})
	if missed := w.End(nil); missed != nil || w.now != nil {
		t.Errorf("started without rank 0: %v", missed)
	}
	w = watch(t, "ok", 0, time.Minute)
	w.bus.Emit(&event.RunStarted{})
	w.Emit(event.Record{Event: &event.PluginLog{Plugin: "fake", Message: "got a batch"}})
	w.Emit(event.Record{Event: &event.PluginLog{Plugin: "other", Message: "something else"}})
	w.End(nil)
	if got := w.got(t); strings.Contains(got, "got a batch") || !strings.Contains(got, "something else") {
		t.Errorf("it got %s", got)
	}
	if s := observer.New(nil, nil); s != nil {
		t.Error("a sink without observers")
	} else {
		s.Emit(event.Record{Event: &event.RunStarted{}})
		if s.End(nil) != nil {
			t.Error("a run without observers missed something")
		}
	}
}
