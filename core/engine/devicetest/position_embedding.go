package devicetest

import "github.com/trainctl/trainctl/core/engine/op"

func init() {
	register(op.PositionEmbedding, func(r *rig) {
		for _, s := range [][4]int{{1, 1, 1, 1}, {3, 5, 7, 6}, {4, 9, 33, 9}} {
			r.each(shapeName(s[:]...), func(r *rig) { positionEmbedding(r, s[0], s[1], s[2], s[3]) })
		}
	})
}

func positionEmbedding(r *rig, n, positions, width, rows int) {
	x, table, dy := r.normal(n, positions, width), r.normal(rows, width), r.normal(n, positions, width)
	y, dt := newWant(len(x.v)), newWant(len(table.v))
	y.terms, dt.terms = 1, float64(n)
	for i := range x.v {
		at := i % (positions * width)
		y.add(i, x.v[i])
		y.add(i, table.v[at])
		dt.add(at, dy.v[i])
	}
	out, gt := r.output(n, positions, width), r.gradient(r.d, rows, width)
	r.do(op.PositionEmbedding, nil, []*arg{x, table}, []*arg{out})
	r.check("y", out, y)
	r.do(op.PositionEmbedding, nil, []*arg{x, table}, []*arg{x})
	r.check("y over x", x, y)
	r.gradients(op.PositionEmbeddingGrad, nil, []*arg{dy}, []*arg{gt}, wanted{"dtable", gt, dt})
}
