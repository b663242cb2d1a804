package forecast

// node is a box of the drawing: the input of the model, or a layer.
type node struct {
	layer  *Layer // nil: the input
	inputs []int  // nodes that it reads, all before it
	row    int    // the longest path to it
	column int
}

// edge leads from one node to a later one.
type edge struct {
	from, to int
	lane     int // from 1, on the left of the boxes; 0: it needs none
}

// nodes places layers: each in the row below all layers that it reads, and in the column of the first
// of these that is free there. So a chain is a column, and a branch stands beside the layers that
// it bypasses.
func nodes(layers []Layer) []node {
	out := []node{{}}
	by := map[string]int{}
	taken := map[[2]int]bool{{0, 0}: true}
	for i := range layers {
		n := node{layer: &layers[i]}
		for _, name := range layers[i].Inputs {
			n.inputs = append(n.inputs, by[name]) // the input of the model has no layer's name
		}
		if n.inputs == nil {
			n.inputs = []int{i}
		}
		for _, in := range n.inputs {
			n.row = max(n.row, out[in].row+1)
		}
		for n.column = out[n.inputs[0]].column; taken[[2]int{n.row, n.column}]; n.column++ {
		}
		taken[[2]int{n.row, n.column}] = true
		by[layers[i].Name] = i + 1
		out = append(out, n)
	}
	return out
}

// edges gives a lane to every edge that would cross boxes of its own column.
func edges(list []node) []edge {
	taken := map[[2]int]bool{}
	for _, n := range list {
		taken[[2]int{n.row, n.column}] = true
	}
	var out []edge
	var ends []int // the last row of each lane
	for to, n := range list {
		for _, from := range n.inputs {
			e := edge{from: from, to: to}
			if crosses(taken, list[from], n) {
				e.lane = laneFrom(&ends, list[from].row, n.row)
			}
			out = append(out, e)
		}
	}
	return out
}

// crosses reports whether there are boxes between a node and a later one in the column of the first.
func crosses(taken map[[2]int]bool, from, to node) bool {
	for row := from.row + 1; row < to.row; row++ {
		if taken[[2]int{row, from.column}] {
			return true
		}
	}
	return false
}

// laneFrom takes the first lane that is free from a row on. An edge that ended in this row still
// takes its lane, because the two would look like one.
func laneFrom(ends *[]int, first, last int) int {
	for i, end := range *ends {
		if end < first {
			(*ends)[i] = last
			return i + 1
		}
	}
	*ends = append(*ends, last)
	return len(*ends)
}
