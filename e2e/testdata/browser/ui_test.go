package browser

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir/rundirtest"
	"github.com/trainctl/trainctl/core/report/ui"
)

// serve starts trainctl ui's server for a folder and returns the address to open.
func serve(t *testing.T, dir string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := ui.New(ui.Options{FS: afero.NewOsFs(), Dir: dir})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s.Address(l.Addr())
}

// A page follows its run; what the run writes is drawn soon after.
func TestPageFollowsItsRun(t *testing.T) {
	dir := t.TempDir()
	r := newRun(t, dir, "a", 100)
	r.Log(1, "2026-01-02T12:00:01.000000Z <img src=x onerror=alert(1)> \x1b[31mred\x1b[0m "+strings.Repeat("z", 1<<20)+"\n")
	address := serve(t, dir)
	b := open(t, 1000, 800)
	b.do(chromedp.Navigate(address), chromedp.Click(`a[href="/runs?id=a%2f1"]`), chromedp.WaitVisible(`#live-tools button`))
	b.until(`document.getElementById("live-status").textContent.startsWith("Following; last change")`)
	var slowest time.Duration
	for last := 110; last <= 130; last += 10 {
		began := time.Now()
		r.Steps(last-9, last)
		b.until(`trainctlPage.plots.get("loss").data[0].length === ` + strconv.Itoa(last))
		slowest = max(slowest, time.Since(began))
	}
	t.Logf("new steps were drawn after at most %v", slowest)
	for _, steps := range [][2]int{{131, 6000}, {6001, 6003}, {5990, 6010}} {
		r.Steps(steps[0], steps[1])
		b.until(`fetch("/data?id=a%2F1").then(r => r.json()).then(d => JSON.stringify(d.runs[0].series.loss) === JSON.stringify(trainctlPage.drawn(0).series.loss) && d.runs[0].step.at(-1) === ` + strconv.Itoa(steps[1]) + `)`)
	}
	b.do(chromedp.Click(`#live-tools summary`))
	b.until(`/<img src=x onerror=alert\(1\)> +\[31mred/.test(document.querySelector("pre.log").textContent)`)
	if n := eval[int](b, `document.querySelector("pre.log").textContent.length`); n > 20_000 {
		t.Errorf("a line of 1 MB is shown with %d characters", n)
	}
	b.do(chromedp.SetValue(`#live-tools select`, "0"))
	b.run(`document.querySelector("#live-tools select").onchange()`)
	b.until(`document.querySelector("pre.log").textContent === "12:00:00.000 [rank 0] first line\n"`)
	b.until(`document.querySelector(".worst img")?.naturalWidth === 28`)
	best, picture := event.Number(0.5), rundirtest.Picture(t, 20)
	if err := r.Dir.WriteEvaluation(r.FS, &event.Evaluation{Step: 6010, Accuracy: &best, Loss: 9, Worst: []event.WorstSample{{Split: "test", Index: 4, Picture: picture}}}); err != nil {
		t.Fatal(err)
	}
	b.until(`[...document.querySelectorAll(".worst img")].map(i => i.naturalWidth).join() === "20,28"`) // the last, and the best
	end(r, 6010)
	b.until(`document.querySelector("[data-state]").textContent === "ok"`)
	b.accessible()
}

// The list is filtered, compares runs and keeps tags; without the token there is none of it.
func TestListOfRuns(t *testing.T) {
	dir := t.TempDir()
	newRun(t, dir, "a", 20)
	newRun(t, dir, "b", 20)
	newRun(t, dir, "b", 20)
	address := serve(t, dir)
	b := open(t, 1000, 800)
	b.expected = "403" // of the refused pages
	base, _, _ := strings.Cut(address, "?")
	for _, wrong := range []string{base, base + "?token=wrong", base + "runs?id=a%2f1"} {
		b.do(chromedp.Navigate(wrong))
		if text := eval[string](b, `document.body.textContent`); !strings.Contains(text, "token is missing or wrong") {
			t.Errorf("%s: %s", wrong, text)
		}
	}
	b.do(chromedp.Navigate(address), chromedp.SendKeys(`#filter`, "b/"))
	b.until(`document.getElementById("count").textContent === "2 of 3 runs"`)
	b.do(chromedp.Click(`tr[data-id="b/1"] summary`), chromedp.SendKeys(`tr[data-id="b/1"] input[name=tags]`, "good, <i>x"), chromedp.Click(`tr[data-id="b/1"] form button`))
	b.until(`document.querySelector('tr[data-id="b/1"] summary')?.textContent.includes("<i>x, good")`)
	b.do(chromedp.Click(`tr[data-id="b/1"] input[type=checkbox]`), chromedp.Click(`tr[data-id="a/1"] input[type=checkbox]`), chromedp.Click(`button[form=compare]`))
	b.until(`document.querySelector("h1").textContent === "2 runs compared"`)
	b.do(chromedp.Navigate(base))
	b.until(`document.getElementById("count").textContent === "3 of 3 runs"`)
	b.accessible()
}
