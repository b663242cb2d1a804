package pairs

import (
	"fmt"
	"io"
	"math"
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

// Estimate is what several ratios say together.
type Estimate struct {
	Ratio float64 `json:"ratio"` // geometric mean
	Low   float64 `json:"low"`   // the 95 % confidence interval, if ratios are log-normal and independent
	High  float64 `json:"high"`
	Of    int     `json:"of"`
}

func (e Estimate) String() string {
	return fmt.Sprintf("%.4f, of %d pairs, 95 %% confidence from %.4f to %.4f", e.Ratio, e.Of, e.Low, e.High)
}

// EstimateOf is the estimate of two ratios or more, which are above 0.
func EstimateOf(ratios []float64) Estimate {
	n := float64(len(ratios))
	var sum, squares float64
	for _, r := range ratios {
		sum += math.Log(r)
	}
	mean := sum / n
	for _, r := range ratios {
		d := math.Log(r) - mean
		squares += d * d
	}
	half := student(n-1) * math.Sqrt(squares/(n-1)/n)
	return Estimate{Ratio: math.Exp(mean), Low: math.Exp(mean - half), High: math.Exp(mean + half), Of: len(ratios)}
}

// student is the 97.5 % quantile of Student's t distribution, by degrees of freedom: exact for one and two, otherwise
// the expansion of Abramowitz and Stegun 26.7.5, which is within 1 % from three on.
func student(freedom float64) float64 {
	switch freedom {
	case 1:
		return 12.706
	case 2:
		return 4.303
	}
	const z = 1.959964
	z2 := z * z
	return z * (1 + (z2+1)/(4*freedom) + ((5*z2+16)*z2+3)/(96*freedom*freedom) + (((3*z2+19)*z2+17)*z2-15)/(384*freedom*freedom*freedom))
}

// Median sorts x, which is not empty.
func Median(x []float64) float64 {
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
