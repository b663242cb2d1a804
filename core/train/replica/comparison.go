package replica

import (
	"fmt"
	"slices"
	"strings"
)

// Comparison lists the ranks whose value differs from that of the majority.
type Comparison struct {
	Equal bool
	world int
	Odd   []int   // ranks that differ from the majority; none without a majority
	parts [][]int // ranks by value, where there is no majority
}

// Compare groups ranks by value: all[r] is that of rank r.
func Compare[T comparable](all []T) Comparison {
	c := Comparison{world: len(all)}
	at := map[T]int{}
	for r, v := range all {
		i, ok := at[v]
		if !ok {
			i = len(c.parts)
			at[v], c.parts = i, append(c.parts, nil)
		}
		c.parts[i] = append(c.parts[i], r)
	}
	c.Equal = len(c.parts) == 1
	for i, p := range c.parts {
		if 2*len(p) > c.world {
			c.Odd = slices.Concat(slices.Delete(slices.Clone(c.parts), i, i+1)...)
			slices.Sort(c.Odd)
			c.parts = nil
			break
		}
	}
	return c
}

// String says which ranks differ, unless all are equal.
func (c Comparison) String() string {
	switch {
	case len(c.Odd) > 0:
		return fmt.Sprintf("%s from the other %d in parameters, buffers or optimizer state", differ(c.Odd), c.world-len(c.Odd))
	case c.world == 2:
		return "ranks 0 and 1 differ in parameters, buffers or optimizer state (with two ranks there is no majority to tell which one is wrong)"
	}
	groups := make([]string, len(c.parts))
	for i, p := range c.parts {
		groups[i] = listRanks(p)
	}
	return fmt.Sprintf("the ranks differ in parameters, buffers or optimizer state, and no majority agrees: %s", strings.Join(groups, " | "))
}

func differ(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d differs", ranks[0])
	}
	return fmt.Sprintf("ranks %s differ", listRanks(ranks))
}

// listRanks names up to eight ranks.
func listRanks(ranks []int) string {
	const most = 8
	s := make([]string, 0, most+1)
	for _, r := range ranks[:min(most, len(ranks))] {
		s = append(s, fmt.Sprint(r))
	}
	if more := len(ranks) - most; more > 0 {
		s = append(s, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(s, ", ")
}
