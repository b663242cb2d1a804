package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/trainctl/trainctl/core/bench"
)

// report is what -json writes.
type report struct {
	Date    string     `json:"date"`
	Machine string     `json:"machine"`
	NoGloo  string     `json:"gloo_missing,omitempty"`
	Places  []measured `json:"places"`
}

// place is where two ranks stand.
type place struct {
	Name  string `json:"name"`
	Title string `json:"-"`
	Hosts int    `json:"hosts"` // network namespaces, 0: one host
}

var places = []place{{"host", "2 ranks on one host", 0}, {"namespaces", "2 ranks in two network namespaces", 2}}

// measured are all rounds in one place.
type measured struct {
	place
	Skipped string  `json:"skipped,omitempty"`
	Rounds  []round `json:"rounds,omitempty"`
}

// round is every size once, of both sides.
type round []bench.Result

// of is one side's result for a size; a zero one where it was not measured.
func (r round) of(backend string, size int) bench.Result {
	i := slices.IndexFunc(r, func(x bench.Result) bool { return x.Backend == backend && x.Bytes == size })
	if i < 0 {
		return bench.Result{}
	}
	return r[i]
}

func (m *measured) sizes() (all []int) {
	for _, r := range m.Rounds[0] {
		if !slices.Contains(all, r.Bytes) {
			all = append(all, r.Bytes)
		}
	}
	return all
}

// over is the median of a figure over the rounds that have it, 0 if none has.
func (m *measured) over(figure func(round) float64) float64 {
	var x []float64
	for _, r := range m.Rounds {
		if v := figure(r); v > 0 {
			x = append(x, v)
		}
	}
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// columns of the table, for one size of a round.
var columns = []struct {
	name, format string
	of           func(tcp, gloo bench.Result) float64
}{
	{"trainctl µs", "%.1f", func(tcp, _ bench.Result) float64 { return tcp.P50 }},
	{"gloo µs", "%.1f", func(_, gloo bench.Result) float64 { return gloo.P50 }},
	{"ratio", "%.1fx", func(tcp, gloo bench.Result) float64 { return gloo.P50 / tcp.P50 }},
	{"idle µs", "%.1f", func(tcp, _ bench.Result) float64 { return tcp.Idle }},
	{"gloo idle µs", "%.1f", func(_, gloo bench.Result) float64 { return gloo.Idle }},
	{"idle ratio", "%.1fx", func(tcp, gloo bench.Result) float64 { return gloo.Idle / tcp.Idle }},
	{"in place µs", "%.1f", func(tcp, _ bench.Result) float64 { return tcp.Limit }},
	{"of limit", "%.0f %%", func(tcp, _ bench.Result) float64 { return 100 * tcp.Limit / tcp.P50 }},
}

func (r *report) head(w io.Writer) {
	fmt.Fprintf(w, "%s, %s\n", r.Machine, r.Date)
	if r.NoGloo != "" {
		fmt.Fprintf(w, "gloo was left out: %s\n", r.NoGloo)
	}
}

func (m *measured) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n", m.Title)
	if m.Skipped != "" {
		fmt.Fprintf(w, "skipped: %s\n", m.Skipped)
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "bytes\t")
	for _, c := range columns {
		fmt.Fprint(tw, c.name, "\t")
	}
	fmt.Fprintln(tw)
	for _, size := range m.sizes() {
		fmt.Fprint(tw, size, "\t")
		for _, c := range columns {
			fmt.Fprint(tw, m.cell(c.format, size, c.of), "\t")
		}
		fmt.Fprintln(tw)
	}
	tw.Flush()
}

// cell is a dash where nothing was measured.
func (m *measured) cell(format string, size int, of func(tcp, gloo bench.Result) float64) string {
	v := m.over(func(r round) float64 { return of(r.of("tcp", size), r.of("gloo", size)) })
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// sizes is a flag.
type sizes []int

func (s *sizes) String() string {
	var words []string
	for _, n := range *s {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

func (s *sizes) Set(text string) error {
	*s = nil
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return err
		}
		*s = append(*s, n)
	}
	return nil
}
