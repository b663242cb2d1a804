// Package browser tests the pages of core/report/page and core/report/ui in a real browser. It is
// a module of its own, so that nothing else depends on the driver.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	report "github.com/trainctl/trainctl/core/report/page"
	"github.com/trainctl/trainctl/core/report/rundir/rundirtest"
)

// patience is how long a page may take on a busy machine.
const patience = 3 * time.Minute

// browserPath finds a browser, or skips the test.
func browserPath(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("TRAINCTL_BROWSER"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Skip("there is no browser: install Debian's package chromium, or name one in TRAINCTL_BROWSER")
	return ""
}

// chrome is the one browser of all tests.
var chrome struct {
	once sync.Once
	ctx  context.Context
	end  func()
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chrome.end != nil {
		chrome.end()
	}
	os.Exit(code)
}

// tab is a page in the browser. Errors of its scripts, refused requests and dialogs fail the test.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
	expected string // a part of problems that are expected
}

func open(t *testing.T, width, height int64) *tab {
	t.Helper()
	path := browserPath(t)
	chrome.once.Do(func() {
		opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(patience))
		alloc, endAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
		ctx, end := chromedp.NewContext(alloc)
		chrome.ctx, chrome.end = ctx, func() { end(); endAlloc() }
		chrome.err = chromedp.Do(ctx)
	})
	if chrome.err != nil {
		t.Fatalf("%s does not start: %v", path, chrome.err)
	}
	ctx, cancel := chromedp.NewContext(chrome.ctx)
	ctx, stop := context.WithTimeout(ctx, patience)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(width, height))
	t.Cleanup(func() {
		stop()
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.problems {
			if b.expected == "" || !strings.Contains(p, b.expected) {
				t.Error(p)
			}
		}
	})
	return b
}

func (b *tab) listen(ev any) {
	add := func(format string, args ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, fmt.Sprintf(format, args...))
	}
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		add("exception: %v", ev.ExceptionDetails)
	case *log.EventEntryAdded:
		if ev.Entry.Level == log.EntryLevelError {
			add("error: %s %s", ev.Entry.Text, ev.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		add("dialog: %s", ev.Message)
		go func() {
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true}) // the test fails anyway
		}()
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval evaluates an expression, which may be a promise.
func eval[T any](b *tab, expression string) (v T) {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`Promise.resolve(`+expression+`).then(v => JSON.stringify(v === undefined ? null : v))`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		b.t.Fatalf("%s is %.300s: %v", expression, text, err)
	}
	return v
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	for {
		_, err := chromedp.Run(b.ctx, chromedp.Poll[any](expression, chromedp.WithPollingTimeout(patience)))
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "(-32000)") || b.ctx.Err() != nil { // else it is asked of the next page
			b.t.Fatalf("%s: %v", expression, err)
		}
	}
}

// run runs statements.
func (b *tab) run(script string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](script+"\n;0")); err != nil {
		b.t.Fatal(err)
	}
}

// scheme sets what the system prefers: "light" or "dark".
func (b *tab) scheme(name string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
	if err != nil {
		b.t.Fatal(err)
	}
}

// newRun writes a finished run of so many steps.
func newRun(t *testing.T, base, name string, steps int) *rundirtest.Run {
	t.Helper()
	r := rundirtest.New(t, afero.NewOsFs(), base, name)
	r.Write(r.Dir.Config(), fmt.Appendf(nil, "[run]\nname = %q\n[optimizer]\nlr = 0.125\n", name))
	r.Tell(&event.RunStarted{Name: name, WorldSize: 2, Device: "cpu", Backend: "tcp", Precision: "none"}, &event.PlanMade{Parameters: 29034, Buckets: 1, BytesPerStep: 1 << 20, Steps: steps},
		&event.PluginStarted{Type: "backend", Name: "tcp", Path: "/bin/trainctl", SHA256: "00ff"}, &event.DatasetOpened{Plugin: "mnist", Source: "idx", TrainSamples: 60000})
	r.Steps(1, steps/2)
	r.Tell(&event.EvalDone{Step: steps / 2, Loss: 0.5, Accuracy: 0.75, Samples: 10}, &event.CheckpointSaved{Step: steps / 2, Path: "half", Best: true}, &event.BackendRestarted{Generation: 2, Cause: "killed"})
	r.Steps(steps/2+1, steps)
	r.Log(0, "2026-01-02T12:00:00.000000Z first line\n")
	r.Timeline(2, 20)
	e := &event.Evaluation{Step: steps, Classes: []string{"cat", "dog"}, Confusion: [][]int64{{5, 1}, {2, 7}}, Worst: []event.WorstSample{{Split: "test", Index: 17, Class: 1, Loss: 9, Probability: 0.99, Picture: rundirtest.Picture(t, 28)}, {Split: "test", Index: 3, Predicted: 1}}}
	if err := r.Dir.WriteEvaluation(r.FS, e); err != nil {
		t.Fatal(err)
	}
	return r
}

func end(r *rundirtest.Run, steps int) *rundirtest.Run {
	r.Tell(&event.RunDone{Status: "ok"})
	slow := 1
	r.Summary(event.Summary{Status: "ok", Steps: steps, ParamsSHA256: []string{"aa", "aa"}, Memory: event.MemorySummary{PeakRSSBytes: []int64{1 << 20, 2 << 20}}, Comm: event.CommSummary{SlowestRank: &slow}})
	return r
}

// file writes the report of runs and returns its address.
func file(t *testing.T, runs ...*rundirtest.Run) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in []report.Input
	for _, r := range runs {
		run, err := report.Read(r.FS, r.Dir, len(runs))
		if err != nil {
			t.Fatal(err)
		}
		in = append(in, run)
	}
	if err := report.Write(f, in, report.Options{Version: "test", Now: rundirtest.Noon}); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}
