package forecast

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// table aligns columns, numbers to the right, which text/tabwriter supports only for all
// columns or none.
type table struct {
	p     *printer
	right []int // columns that hold numbers
	rows  [][]string
}

func (p *printer) table(right ...int) *table { return &table{p: p, right: right} }

// row writes a name and its values, without the empty ones; it writes nothing if all
// are empty.
func (t *table) row(name string, values ...string) {
	var kept []string
	for _, v := range values {
		if v != "" {
			kept = append(kept, v)
		}
	}
	if len(kept) > 0 {
		t.cells(name, strings.Join(kept, "  "))
	}
}

func (t *table) cells(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) flush() {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range t.rows {
		var b strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if t.isRight(i) {
				c, pad = pad+c, ""
			}
			b.WriteString(c + pad + "  ")
		}
		t.p.line("%s", strings.TrimRight(b.String(), " "))
	}
}

func (t *table) isRight(column int) bool {
	for _, r := range t.right {
		if r == column {
			return true
		}
	}
	return false
}
