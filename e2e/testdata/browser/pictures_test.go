package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPictures makes the pictures of docs/images from the reports one.html and two.html in the
// folder that TRAINCTL_PICTURES names; docs/images/make.sh makes these from real runs.
func TestPictures(t *testing.T) {
	dir := os.Getenv("TRAINCTL_PICTURES")
	if dir == "" {
		t.Skip("TRAINCTL_PICTURES does not name a folder with reports: docs/images/make.sh makes one")
	}
	for name, p := range map[string]struct {
		page, from, to string // the elements at the top and at the bottom
		do             string
	}{
		"report":     {"one.html", "header", "figure[data-chart=loss]", ""},
		"timeline":   {"one.html", "#time h3", "figure[data-timeline]", ""},
		"evaluation": {"one.html", "#evaluation", "#evaluation", ""},
		"compare":    {"two.html", "#overview h3", "figure[data-chart=loss]", `document.getElementById("smoothing").value = 0.9; document.getElementById("smoothing").dispatchEvent(new Event("input", {bubbles: true}))`},
	} {
		b := open(t, 1000, 800)
		b.scheme("light")
		b.do(chromedp.Navigate("file://" + filepath.Join(dir, p.page)))
		if p.do != "" {
			b.run(p.do)
		}
		area := eval[[2]float64](b, `[document.querySelector("`+p.from+`").getBoundingClientRect().top + scrollY, document.querySelector("`+p.to+`").getBoundingClientRect().bottom + scrollY]`)
		b.do(chromedp.EmulateViewport(1000, int64(area[1]-area[0])+20))
		b.run(`scrollTo(0, document.querySelector("` + p.from + `").getBoundingClientRect().top + scrollY - 10)`)
		b.until(`trainctlPage.plots.size > 0`)
		png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
}
