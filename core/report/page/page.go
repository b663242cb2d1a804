package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/sdk"
)

// The files of the page.
var (
	//go:embed assets/page.html
	pageHTML string
	//go:embed assets/page.css
	pageCSS string
	//go:embed assets/page.js
	pageJS string
	//go:embed assets/uplot/uPlot.iife.min.js
	uplotJS string
	//go:embed assets/uplot/uPlot.min.css
	uplotCSS string
	//go:embed assets/uplot/LICENSE
	uplotLicense string

	pageTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Funcs(functions).Parse(pageHTML)) })
)

// Input is a run and its trace, which is nil if it recorded none.
type Input struct {
	Run   *rundir.Run
	Trace *rundir.Trace
}

// Read reads a run for a page of so many runs. A trace that cannot be read is a problem of the run.
func Read(fsys afero.Fs, dir event.RunDir, runs int) (Input, error) {
	r := rundir.Open(fsys, dir)
	if _, err := r.Update(); err != nil {
		return Input{}, err
	}
	return Trace(r, runs), nil
}

// Trace adds its trace to a run as it was last read, for a page of so many runs.
func Trace(r *rundir.Reader, runs int) Input {
	trace, err := r.Timeline(mostSlices / max(1, runs))
	if err != nil && !slices.Contains(r.Run.Problems, err.Error()) {
		r.Run.Problems = append(r.Run.Problems, err.Error())
	}
	return Input{r.Run, trace}
}

// Options say how a page is made.
type Options struct {
	Version string     // of trainctl
	Now     time.Time  // when the page is made
	Plugins []sdk.Info // whose options have known defaults
	Script  string     // of a page that is served and follows its runs; "": the page stands alone
	Text    bool       // without style, scripts and what charts are drawn from: for a page that is open
}

// MostBytes is the maximum size of a page of up to eight runs. Curves are coarser on a page of
// many runs.
const MostBytes = 5 << 20

// Write writes the page of some runs, the first of which is the one that others are compared with.
func Write(w io.Writer, runs []Input, o Options) error {
	v := newView(runs, chartsOf(runs), o)
	if !o.Text {
		if err := v.draw(runs, o); err != nil {
			return err
		}
	}
	var page bytes.Buffer
	if err := pageTemplate().Execute(&page, v); err != nil {
		return err
	}
	_, err := w.Write(page.Bytes())
	return err
}

// draw adds what charts need.
func (v *view) draw(runs []Input, o Options) error {
	data, err := Data(runs, "")
	if err != nil {
		return err
	}
	v.CSS = template.CSS(uplotCSS + pageCSS)
	scripts := []string{"/* uPlot\n" + uplotLicense + "*/\n" + uplotJS, pageJS}
	if o.Script != "" {
		scripts = append(scripts, o.Script)
	}
	for _, s := range scripts {
		v.Scripts = append(v.Scripts, template.JS(s))
	}
	v.Data = template.JS(data)
	v.Policy = Policy(o.Script != "", scripts...)
	return nil
}

// Style is the style sheet of pages without charts.
func Style() string { return pageCSS }

// Policy is a content security policy that allows the given scripts, by their checksums, and
// nothing from elsewhere. A page that is served may send requests to its server.
func Policy(served bool, scripts ...string) string {
	var sums []string
	for _, s := range scripts {
		sum := sha256.Sum256([]byte(s))
		sums = append(sums, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	connect := "'none'"
	if served {
		connect = "'self'"
	}
	return fmt.Sprintf("default-src 'none'; script-src %s; style-src 'unsafe-inline'; img-src data:; connect-src %s; form-action %s; base-uri 'none'",
		strings.Join(sums, " "), connect, connect)
}

// Data returns the JSON that the charts are drawn from. It may stand in a script element. have is what
// its member of that name was the last time, as JSON; then only what was added since is returned. "": everything is.
func Data(runs []Input, have string) ([]byte, error) { return json.Marshal(chartData(runs, have)) }
