package train

import (
	"fmt"
	"math"
)

// standing is what a rank tells the others when the backend's group broke, and
// at the end of the run.
type standing struct {
	Section int      // number of the section that it is in
	Name    string   // of the section
	Seq     uint64   // collectives called so far
	Result  []uint64 // what the section before ended with, as bits: a sum may be NaN
	Cause   string   // why its group broke; "" at the end of the run
	Own     bool     // it was its own plugin
}

// remember keeps the result of the section that ends.
func (s *standing) remember(result []float64) {
	s.Result = s.Result[:0]
	for _, v := range result {
		s.Result = append(s.Result, math.Float64bits(v))
	}
}

func restoreBits(into []float64, bits []uint64) {
	for i, b := range bits[:min(len(into), len(bits))] {
		into[i] = math.Float64frombits(b)
	}
}

// verdict is what all ranks conclude from where they stand.
type verdict struct {
	whole   bool     // all are at the end
	cause   string   // whose plugin it was and what happened
	section int      // with which all go on
	result  []uint64 // of the section before, for ranks that have not seen its end
	repeat  string   // name of a section whose broadcast a rank has missed
	seq     uint64   // of the last collective that any rank has called
}

// judge brings the ranks to the section of those that are farthest. Sections of
// which nothing but broadcasts lie between may be missed together: they
// broadcast the same.
func judge(all []standing) (verdict, error) {
	v := verdict{whole: true, cause: causeOf(all)}
	var first *standing
	for r := range all {
		s := &all[r]
		v.whole = v.whole && s.Cause == ""
		v.seq = max(v.seq, s.Seq)
		if first == nil || s.Section > first.Section {
			first = s
		}
	}
	v.section, v.result = first.Section, first.Result
	for r := range all {
		s := &all[r]
		known := len(v.result) > 0 // the section before the last ended with a reduction
		switch broadcast := s.Name == "weights" || s.Name == "buffers" || s.Name == "carry"; {
		case s.Section == v.section:
		case !broadcast && known && s.Section == v.section-1:
		case broadcast && !known && (v.repeat == "" || v.repeat == s.Name):
			v.repeat = s.Name
		default:
			return v, fmt.Errorf("rank %d is in section %d of the run (%s), others are in %d (%s): they cannot be brought together", r, s.Section, s.Name, first.Section, first.Name)
		}
	}
	return v, nil
}

// causeOf prefers the rank whose own plugin died to those that lost a peer.
func causeOf(all []standing) string {
	cause := ""
	for r := range all {
		s := &all[r]
		if s.Cause == "" {
			continue
		}
		text := fmt.Sprintf("rank %d, %s", r, s.Cause)
		if s.Own {
			return text
		}
		if cause == "" {
			cause = text
		}
	}
	return cause
}
