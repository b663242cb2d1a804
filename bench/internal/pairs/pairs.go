package pairs

import (
	"fmt"
	"io"
	"slices"
)

// Pair is what two sides took, measured one after the other.
type Pair struct {
	A, B float64
}

// Compare measures two sides so many times in turn, beginning with the other one in every second pair, and
// prints medians and the median of the ratios B/A.
func Compare(w io.Writer, pairs int, what string, side func(second bool) (float64, error)) (all []Pair, err error) {
	for i := range pairs {
		var got [2]float64
		for _, k := range []int{i % 2, 1 - i%2} {
			if got[k], err = side(k == 1); err != nil {
				return nil, err
			}
		}
		all = append(all, Pair{got[0], got[1]})
	}
	var first, second, ratios []float64
	for _, p := range all {
		first, second, ratios = append(first, p.A), append(second, p.B), append(ratios, p.B/p.A)
	}
	m := Median(ratios)
	_, err = fmt.Fprintf(w, "%s: %.3f and %.3f; ratio %.4f, of %d pairs between %.4f and %.4f\n", what, Median(first), Median(second), m,
		len(ratios), slices.Min(ratios), slices.Max(ratios))
	return all, err
}

// Median sorts x, which is not empty.
func Median(x []float64) float64 {
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
