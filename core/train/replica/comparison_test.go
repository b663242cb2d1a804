package replica

import (
	"strings"
	"testing"
)

func TestCompareRanks(t *testing.T) {
	for _, c := range []struct {
		all  []float64
		want string
	}{
		{[]float64{1, 1, 2}, "rank 2 differs from the other 2 in"},
		{[]float64{3, 1, 1, 1, 2}, "ranks 0, 4 differ from the other 3 in"},
		{[]float64{1, 2}, "with two ranks there is no majority to tell which one is wrong"},
		{[]float64{1, 2, 1, 2}, "no majority agrees: 0, 2 | 1, 3"},
		{[]float64{1, 2, 3}, "0 | 1 | 2"},
	} {
		if v := Compare(c.all); v.Equal || !strings.Contains(v.String(), c.want) {
			t.Errorf("%v: %v", c.all, v)
		}
	}
	if v := Compare([]string{"a", "a"}); !v.Equal {
		t.Error(v)
	}
}
