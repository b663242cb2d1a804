package timeline

import (
	"cmp"
	"fmt"
	"slices"
)

// Most is the maximum number of slices in a trace, of all ranks: about 130 MB, which trace
// viewers still open. ResNet-50 with SyncBatchNorm has about 130 slices a step,
// 13,000 in the 100 steps that are recorded, 840,000 on 64 ranks: all of them fit.
const Most = 1 << 20

// Share is the maximum number of slices per rank.
func Share(world int) int { return max(64, Most/world) }

// Cut keeps as many whole steps from the beginning and the end as fit into most slices,
// and describes what it omitted; "": nothing. The slices are sorted by step.
func Cut(s []Slice, most int) (kept []Slice, note string) {
	if len(s) <= most {
		return s, ""
	}
	lo, hi := 0, len(s) // slices between them are omitted
	for front := true; ; front = !front {
		a, b := lo, hi
		if front {
			for a < b && s[a].Step == s[lo].Step {
				a++
			}
		} else {
			for a < b && s[b-1].Step == s[hi-1].Step {
				b--
			}
		}
		if a+len(s)-b > most {
			break
		}
		lo, hi = a, b
	}
	kept = append(append(kept, s[:lo]...), s[hi:]...)
	return kept, fmt.Sprintf("steps %d to %d are omitted: %d of %d slices", s[lo].Step, s[hi-1].Step, hi-lo, len(s))
}

// SortBySteps sorts slices by step, as Cut needs them, and within a step by time.
func SortBySteps(s []Slice) {
	slices.SortStableFunc(s, func(a, b Slice) int { return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Start, b.Start)) })
}
