package forecast

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/base/bytesize"
	"github.com/trainctl/trainctl/core/base/decimal"
)

// Sizes in the drawing, in pixels.
const (
	boxWide, boxHigh  = 320, 46
	gapWide, gapHigh  = 40, 22
	laneWide          = 14
	margin, lineHigh  = 20, 18
	letters           = 44 // that fit into a line of a box
	mostBucketsListed = 40
)

// svgStyle has the colours of Okabe and Ito (2008), which colour-blind people can tell apart.
const svgStyle = `
:root { --back: #ffffff; --text: #1a1a1a; --soft: #595959; --line: #767676; --box: #f5f5f5; }
@media (prefers-color-scheme: dark) { :root { --back: #161616; --text: #f0f0f0; --soft: #b4b4b4; --line: #8f8f8f; --box: #262626; } }
.back { fill: var(--back); } .box { fill: var(--box); stroke: var(--line); }
text { fill: var(--text); font: 12px ui-monospace, Menlo, Consolas, monospace; } .soft { fill: var(--soft); font-size: 11px; } .head { font-weight: bold; }
.edge { fill: none; stroke: var(--line); stroke-width: 1.5; marker-end: url(#arrow); } #arrow path { fill: var(--line); }
.b0 { fill: #0072b2; } .b1 { fill: #e69f00; } .b2 { fill: #009e73; } .b3 { fill: #cc79a7; } .b4 { fill: #56b4e9; } .b5 { fill: #d55e00; }
`

// bucketColors is how many colours svgStyle has; more buckets use them again.
const bucketColors = 6

// drawing writes an SVG.
type drawing struct {
	printer
	nodes []node
	edges []edge
	left  int // of column 0
	top   int // of row 0
}

// SVG draws the model as a graph: layers with the shapes of their outputs, parameters, the bytes of
// their gradients and the buckets that hold these. It is one file without scripts, light or
// dark as the viewer prefers, and all text in it is text.
func (r *Report) SVG(w io.Writer) error {
	d := &drawing{printer: printer{w: w}, nodes: nodes(r.Layers)}
	d.edges = edges(d.nodes)
	columns, rows, lanes := 0, 0, 0
	for _, n := range d.nodes {
		columns, rows = max(columns, n.column+1), max(rows, n.row+1)
	}
	for _, e := range d.edges {
		lanes = max(lanes, e.lane)
	}
	heads := r.heads()
	d.left = margin + lanes*laneWide
	d.top = margin + len(heads)*lineHigh + gapHigh
	wide := max(d.left+columns*(boxWide+gapWide)-gapWide+margin, 760)
	high := d.top + rows*(boxHigh+gapHigh) - gapHigh + margin
	d.line(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`, wide, high, wide, high)
	d.line(`<title>%s</title><style>%s</style>`, escaped(r.Name), svgStyle)
	d.line(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>`)
	d.line(`<rect class="back" width="100%%" height="100%%"/>`)
	for i, h := range heads {
		h.draw(&d.printer, margin, margin+i*lineHigh+12)
	}
	for _, e := range d.edges {
		d.edge(e)
	}
	for i := range d.nodes {
		d.box(r, &d.nodes[i])
	}
	d.line("</svg>")
	return d.err
}

// head is a line above the graph, with the colour of a bucket if it is about one.
type head struct {
	class  string
	bucket int // -1: none
	text   string
}

func (h *head) draw(p *printer, x, y int) {
	if h.bucket >= 0 {
		p.line(`<rect class="b%d" x="%d" y="%d" width="12" height="12"/>`, h.bucket%bucketColors, x, y-10)
		x += 20
	}
	p.line(`<text class="%s" x="%d" y="%d">%s</text>`, h.class, x, y, escaped(h.text))
}

func (r *Report) heads() []head {
	out := []head{
		{"head", -1, r.Name},
		{"soft", -1, fmt.Sprintf("%s parameters; %s of gradients per step and rank; output shapes are those of one sample",
			decimal.Group(int64(r.Totals.Parameters)), bytesize.Text(r.Traffic.GradientBytes))},
	}
	for i, b := range r.Buckets[:min(len(r.Buckets), mostBucketsListed)] {
		out = append(out, head{"soft", i, fmt.Sprintf("bucket %d: %s in %d gradients, from %s to %s", i, bytesize.Text(b.Bytes), b.Parameters, b.First, b.Last)})
	}
	if n := len(r.Buckets) - mostBucketsListed; n > 0 {
		out = append(out, head{"soft", -1, fmt.Sprintf("… (%d more buckets)", n)})
	}
	return out
}

// corner is the top left corner of a node's box.
func (d *drawing) corner(n *node) (x, y int) {
	return d.left + n.column*(boxWide+gapWide), d.top + n.row*(boxHigh+gapHigh)
}

// edge draws a line from the bottom of a box to the top of a later one: straight down where they stand
// in one column, or else in the column of the first down to the row before the second. An edge
// with a lane leaves its box on the left.
func (d *drawing) edge(e edge) {
	from, to := &d.nodes[e.from], &d.nodes[e.to]
	x, y := d.corner(from)
	u, v := d.corner(to)
	switch middle := boxWide / 2; {
	case e.lane > 0:
		lane := d.left - e.lane*laneWide
		d.line(`<path class="edge" d="M%d %dH%dV%dH%d"/>`, x, y+boxHigh/2, lane, v+boxHigh/2, u)
	case from.column == to.column:
		d.line(`<path class="edge" d="M%d %dV%d"/>`, x+middle, y+boxHigh, v)
	default: // beside the arrow that comes straight from above
		d.line(`<path class="edge" d="M%d %dV%dH%dV%d"/>`, x+middle, y+boxHigh, v-gapHigh/2, u+middle+20, v)
	}
}

// box draws a node.
func (d *drawing) box(r *Report, n *node) {
	x, y := d.corner(n)
	first, second, third := "input", r.Dataset.Input, ""
	var own Gradients
	if l := n.layer; l != nil {
		own = r.Gradients[l.Name]
		first, second = l.Name, l.Type+" "+l.Output
		if l.Parameters > 0 {
			third = decimal.Group(int64(l.Parameters))
		}
	}
	var in []string
	for _, b := range own.Buckets {
		in = append(in, strconv.Itoa(b))
	}
	if len(in) > 0 {
		third += " · " + bytesize.Text(own.Bytes) + " · b" + strings.Join(in, ",")
	}
	d.line(`<g><title>%s</title><rect class="box" x="%d" y="%d" width="%d" height="%d" rx="4"/>`, escaped(strings.TrimSpace(first+"\n"+second+"\n"+third)), x, y, boxWide, boxHigh)
	for i, b := range own.Buckets {
		high := boxHigh / len(own.Buckets)
		d.line(`<rect class="b%d" x="%d" y="%d" width="6" height="%d"/>`, b%bucketColors, x, y+i*high, high)
	}
	d.line(`<text class="head" x="%d" y="%d">%s</text>`, x+12, y+18, escaped(cut(first, letters-2)))
	second = cut(second, max(8, letters-2-len([]rune(third))))
	d.line(`<text class="soft" x="%d" y="%d">%s</text><text class="soft" x="%d" y="%d" text-anchor="end">%s</text></g>`, x+12, y+36, escaped(second), x+boxWide-8, y+36, escaped(third))
}

// cut keeps the end of a long name, which tells layers apart.
func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return "…" + string(r[len(r)-most+1:])
	}
	return s
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder has no errors
	return b.String()
}
