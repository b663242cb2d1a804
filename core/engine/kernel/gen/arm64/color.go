package arm64

import (
	"cmp"
	"fmt"
	"slices"
)

// machine are the registers that code may use. R16 to R18 belong to the linker and the
// system, and R27 to R30 to Go.
var machine = map[class][]int{general: integers(0, 15, 19, 26), vector: integers(0, 31)}

func integers(bounds ...int) (list []int) {
	for i := 0; i < len(bounds); i += 2 {
		for n := bounds[i]; n <= bounds[i+1]; n++ {
			list = append(list, n)
		}
	}
	return list
}

// graph says which registers are live at the same time, and which are copies.
type graph struct {
	classes []class
	near    []map[Reg]bool
	copies  []map[Reg]bool
}

func newGraph(insts []inst, classes []class) *graph {
	g := &graph{classes, make([]map[Reg]bool, len(classes)), make([]map[Reg]bool, len(classes))}
	for r := range classes {
		g.near[r], g.copies[r] = map[Reg]bool{}, map[Reg]bool{}
	}
	list := live(insts)
	for _, b := range list {
		now := b.out(list)
		for i := b.to - 1; i >= b.from; i-- {
			g.instruction(&insts[i], now)
			insts[i].step(now)
		}
	}
	return g
}

// instruction notes that what an instruction sets is live together with what is live
// behind it.
func (g *graph) instruction(i *inst, now map[Reg]bool) {
	for n, d := range i.defs {
		for r := range now {
			if !i.isCopy || r != i.uses[0] {
				g.meet(d, r)
			}
		}
		for _, other := range i.defs[:n] {
			g.meet(d, other)
		}
		if i.isCopy {
			g.copies[d][i.uses[0]], g.copies[i.uses[0]][d] = true, true
		}
	}
}

func (g *graph) meet(x, y Reg) {
	if x != y && g.classes[x] == g.classes[y] {
		g.near[x][y], g.near[y][x] = true, true
	}
}

// color gives each register one of the machine's: those with few neighbours last (G.
// Chaitin, "Register allocation and spilling via graph coloring", 1982), and copies the
// same where that is possible.
func (g *graph) color() ([]int, error) {
	numbers := make([]int, len(g.classes))
	for i := range numbers {
		numbers[i] = -1
	}
	for _, r := range slices.Backward(g.order()) {
		n, ok := g.choose(r, numbers)
		if !ok {
			return nil, fmt.Errorf("%c registers do not suffice", g.classes[r])
		}
		numbers[r] = n
	}
	return numbers, nil
}

// order takes registers away, always the one with the fewest neighbours left.
func (g *graph) order() []Reg {
	left, degree := []Reg{}, make([]int, len(g.classes))
	for r := range g.classes {
		left, degree[r] = append(left, Reg(r)), len(g.near[r])
	}
	var order []Reg
	for len(left) > 0 {
		r := slices.MinFunc(left, func(x, y Reg) int {
			return cmp.Or(cmp.Compare(degree[x], degree[y]), cmp.Compare(x, y))
		})
		order = append(order, r)
		left = slices.DeleteFunc(left, func(x Reg) bool { return x == r })
		for n := range g.near[r] {
			degree[n]--
		}
	}
	return order
}

// choose is the register of a copy if it is free, or the first free one.
func (g *graph) choose(r Reg, numbers []int) (int, bool) {
	taken := map[int]bool{}
	for n := range g.near[r] {
		taken[numbers[n]] = true
	}
	best := -1
	for c := range g.copies[r] {
		if n := numbers[c]; n >= 0 && !taken[n] && (best < 0 || n < best) {
			best = n
		}
	}
	if best >= 0 {
		return best, true
	}
	for _, n := range machine[g.classes[r]] {
		if !taken[n] {
			return n, true
		}
	}
	return 0, false
}
