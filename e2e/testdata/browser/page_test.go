package browser

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir/rundirtest"
)

// drawn reports whether a chart's canvas has pixels of a colour other than its background.
const drawn = `(id => {
	const c = document.querySelector("figure[data-chart='" + id + "'] canvas") || document.querySelector("figure[data-timeline='" + id + "'] canvas");
	const p = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
	const seen = new Set();
	for (let i = 0; i < p.length; i += 4) if (p[i + 3] > 200) seen.add(p[i] + "," + p[i + 1] + "," + p[i + 2]);
	return seen.size;
})`

// Every chart is drawn from its data.
func TestChartsHaveTheirData(t *testing.T) {
	const steps = 300
	b := open(t, 1200, 900)
	b.do(chromedp.Navigate(file(t, end(newRun(t, t.TempDir(), "a", steps), steps))))
	want := []string{"loss", "accuracy", "lr", "grad_norm", "samples_per_sec", "step_ms", "data_ms", "comm_ms"}
	if got := eval[[]string](b, `[...trainctlPage.plots.keys()]`); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("charts %v, want %v", got, want)
	}
	loss := eval[[]float64](b, `trainctlPage.plots.get("loss").data[1]`)
	if len(loss) != steps {
		t.Fatalf("%d points", len(loss))
	}
	for i, v := range loss {
		if math.Abs(v-rundirtest.Loss(i+1)) > 1e-4 {
			t.Fatalf("step %d: loss %v, want %v", i+1, v, rundirtest.Loss(i+1))
		}
	}
	if at := eval[[]any](b, `trainctlPage.plots.get("loss").data[2].map((v, i) => [i + 1, v]).filter(p => p[1] != null).flat()`); fmt.Sprint(at) != "[150 0.5]" {
		t.Errorf("evaluations at %v", at)
	}
	for _, id := range append(want, "0") {
		if n := eval[int](b, drawn+`("`+id+`")`); n < 3 {
			t.Errorf("chart %s has %d colours", id, n)
		}
	}
	if text := eval[string](b, `document.getElementById("markhelp").textContent`); !strings.Contains(text, "P plugin replaced") {
		t.Error(text)
	}
	if rows := eval[int](b, `document.querySelectorAll("figure[data-chart] table").length`); rows != 2*len(want) {
		t.Errorf("%d tables for %d charts", rows, len(want))
	}
}

// Pictures of the worst samples are decoded, in spite of the page's policy, and say what they show.
func TestWorstSamplesHavePictures(t *testing.T) {
	b := open(t, 800, 600)
	b.do(chromedp.Navigate(file(t, newRun(t, t.TempDir(), "a", 20))))
	b.until(`[...document.querySelectorAll(".worst img")].every(i => i.complete)`)
	if got := eval[[]string](b, `[...document.querySelectorAll(".worst img")].map(i => i.naturalWidth + "×" + i.naturalHeight + " " + i.alt)`); fmt.Sprint(got) != "[28×28 test 17: dog, predicted as cat]" {
		t.Errorf("pictures %q", got)
	}
	if text := eval[string](b, `document.querySelector(".worst li").innerText`); text != "dog → cat\n99.00 %, loss 9\ntest 17" {
		t.Errorf("caption %q", text)
	}
}

// x is the range of a chart.
func x(b *tab, id string) [2]float64 {
	b.t.Helper()
	return eval[[2]float64](b, `(s => [s.min, s.max])(trainctlPage.plots.get("`+id+`").scales.x)`)
}

// All charts zoom together, with the mouse and with the keyboard.
func TestChartsZoom(t *testing.T) {
	b := open(t, 1200, 900)
	b.do(chromedp.Navigate(file(t, newRun(t, t.TempDir(), "a", 300))), chromedp.ScrollIntoView(`figure[data-chart=loss] .u-over`))
	all := x(b, "loss")
	box := eval[[4]float64](b, `(r => [r.left, r.top, r.width, r.height])(document.querySelector("figure[data-chart=loss] .u-over").getBoundingClientRect())`)
	y := box[1] + box[3]/2
	b.do(chromedp.MouseEvent(chromedp.MousePressed, box[0]+box[2]/4, y, chromedp.ButtonLeft), chromedp.MouseEvent(chromedp.MouseMoved, box[0]+box[2]/3, y, chromedp.ButtonLeft),
		chromedp.MouseEvent(chromedp.MouseMoved, box[0]+box[2]/2, y, chromedp.ButtonLeft), chromedp.MouseEvent(chromedp.MouseReleased, box[0]+box[2]/2, y, chromedp.ButtonLeft))
	b.until(`trainctlPage.plots.get("lr").scales.x.max < 200`)
	if got := x(b, "loss"); math.Abs(got[0]-75) > 5 || math.Abs(got[1]-150) > 5 || x(b, "comm_ms") != got {
		t.Errorf("zoomed to %v and %v", got, x(b, "comm_ms"))
	}
	b.do(chromedp.Focus(`figure[data-chart=lr] .plot`), chromedp.KeyEvent("0"))
	b.until(fmt.Sprintf(`trainctlPage.plots.get("loss").scales.x.max === %v`, all[1]))
	b.do(chromedp.KeyEvent("+"), chromedp.KeyEvent(kb.ArrowRight))
	if got := x(b, "loss"); got[1]-got[0] > 0.6*(all[1]-all[0]) {
		t.Errorf("+ zooms to %v", got)
	}
	b.until(`/^step \d+: a\/1 0\.1$/.test(document.querySelector("figure[data-chart=lr] .readout").value)`)
	b.do(chromedp.Click(`#reset`))
	b.until(fmt.Sprintf(`trainctlPage.plots.get("loss").scales.x.min === %v`, all[0]))
	b.do(chromedp.Click(`input[value=time]`))
	b.until(`trainctlPage.plots.get("loss").scales.x.max < 20`)
}

// Runs are overlaid, hidden and smoothed.
func TestRunsAreOverlaid(t *testing.T) {
	dir := t.TempDir()
	b := open(t, 1200, 900)
	b.do(chromedp.Navigate(file(t, newRun(t, dir, "a", 100), newRun(t, dir, "a", 9000))))
	if n := eval[int](b, `trainctlPage.plots.get("lr").series.filter(s => s.show && /^a\/\d$/.test(s.label)).length`); n != 2 {
		t.Errorf("%d curves", n)
	}
	if n := eval[int](b, `trainctlPage.plots.get("loss").bands.length`); n != 1 {
		t.Errorf("%d bands: only the long run has several steps at a point", n)
	}
	b.do(chromedp.Click(`input[data-run="1"]`))
	b.until(`trainctlPage.plots.get("lr").series.filter(s => s.show && /^a\/\d$/.test(s.label)).length === 1`)
	before := eval[float64](b, `Math.max(...trainctlPage.plots.get("loss").data[1].slice(50, 90).filter(v => v != null).map((v, i, a) => i ? Math.abs(v - a[i - 1]) : 0))`)
	b.do(chromedp.SetValue(`#smoothing`, "0.9"))
	b.run(`document.getElementById("smoothing").dispatchEvent(new Event("input", {bubbles: true}))`)
	after := eval[float64](b, `Math.max(...trainctlPage.plots.get("loss").data[1].slice(50, 90).filter(v => v != null).map((v, i, a) => i ? Math.abs(v - a[i - 1]) : 0))`)
	if !(after < before/2) {
		t.Errorf("neighbours differ by %v, smoothed by %v", before, after)
	}
	b.do(chromedp.Click(`#log`))
	b.until(`trainctlPage.plots.get("loss").scales.y.distr === 3`)
}

// Whatever a run contains is shown as text.
func TestHostileText(t *testing.T) {
	const evil = `</script><script>alert(1)</script><img src=x onerror="alert(2)"><svg onload=alert(3)>`
	r := rundirtest.New(t, newRun(t, t.TempDir(), "a", 4).FS, t.TempDir(), "<img src=x onerror=alert(4)>")
	r.Write(r.Dir.Config(), fmt.Appendf(nil, "[run]\nname = %q\n", evil))
	r.Tell(&event.RunStarted{Name: evil, Device: evil}, &event.Warning{Source: "x", Message: evil + strings.Repeat("y", 1<<20)}, &event.RankFailed{Host: evil, Message: "\x1b[31m" + evil, LastLines: []string{evil}})
	r.Steps(1, 20)
	e := &event.Evaluation{Classes: []string{evil}, Worst: []event.WorstSample{{Split: "test", Picture: rundirtest.Picture(t, 8)}, {Split: evil}}}
	if err := r.Dir.WriteEvaluation(r.FS, e); err != nil {
		t.Fatal(err)
	}
	b := open(t, 800, 600)
	b.do(chromedp.Navigate(file(t, r)))
	if title := eval[string](b, `document.querySelector("h1").textContent`); title != "<img src=x onerror=alert(4)>/1" {
		t.Errorf("%q", title)
	}
	if n := eval[int](b, `document.querySelectorAll("img:not(.worst img), svg:not(.bar), script:not([type]):not(:nth-last-of-type(-n+2))").length`); n != 0 {
		t.Errorf("%d elements came from the run", n)
	}
	if !eval[bool](b, `document.querySelector(".history").textContent.includes("<svg onload=alert(3)>")`) {
		t.Error("the text is not shown")
	}
}

// Pages fit a narrow window, and change with the colours of the system.
func TestNarrowDarkAndPrinted(t *testing.T) {
	b := open(t, 320, 640)
	b.do(chromedp.Navigate(file(t, end(newRun(t, t.TempDir(), "a", 300), 300))))
	if w := eval[int](b, `document.documentElement.scrollWidth`); w > 320 {
		t.Errorf("the page is %d pixels wide: %v", w, eval[[]string](b, `[...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > 321 && !e.closest(".wide")).map(e => e.outerHTML.slice(0, 80)).slice(0, 5)`))
	}
	light := eval[string](b, `getComputedStyle(document.body).backgroundColor`)
	b.scheme("dark")
	b.until(fmt.Sprintf(`getComputedStyle(document.body).backgroundColor !== %q`, light))
	if pdf, err := chromedp.Run(b.ctx, chromedp.PrintToPDF()); err != nil || len(pdf) < 10_000 {
		t.Errorf("printed, the page has %d bytes: %v", len(pdf), err)
	}
}

// violation is a finding of axe-core.
type violation struct {
	ID, Impact, Help string
	Nodes            []string
}

// accessible fails for serious findings of axe-core on the page.
func (b *tab) accessible() {
	b.t.Helper()
	path := os.Getenv("TRAINCTL_AXE")
	if path == "" {
		b.t.Skip("TRAINCTL_AXE does not name axe.min.js: make test-browser gets it from the npm package axe-core")
	}
	axe, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	b.run(string(axe))
	found := eval[[]violation](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => ({ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.map(n => n.html.slice(0, 120)).slice(0, 3)})))`)
	for _, v := range found {
		if v.Impact == "serious" || v.Impact == "critical" {
			b.t.Errorf("%s (%s): %s %q", v.ID, v.Impact, v.Help, v.Nodes)
		} else {
			b.t.Logf("%s (%s): %s %q", v.ID, v.Impact, v.Help, v.Nodes)
		}
	}
}

func TestReportIsAccessible(t *testing.T) {
	dir := t.TempDir()
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			b := open(t, 1000, 800)
			b.scheme(scheme)
			b.do(chromedp.Navigate(file(t, end(newRun(t, dir, "a", 300), 300), newRun(t, dir, "b", 300))))
			b.run(`document.querySelectorAll("details").forEach(d => d.open = true)`)
			b.accessible()
		})
	}
}
