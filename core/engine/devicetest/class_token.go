package devicetest

import "github.com/trainctl/trainctl/core/engine/op"

func init() {
	register(op.ClassToken, func(r *rig) {
		for _, s := range [][3]int{{1, 1, 1}, {3, 5, 7}, {4, 9, 33}} {
			r.each(shapeName(s[:]...), func(r *rig) { classToken(r, s[0], s[1], s[2]) })
		}
	})
}

func classToken(r *rig, n, positions, width int) {
	x, token, dy := r.normal(n, positions, width), r.normal(1, 1, width), r.normal(n, positions+1, width)
	y, dx, dt := []float64{}, []float64{}, newWant(width)
	dt.terms = float64(n)
	for i := range n {
		y = append(append(y, token.v...), x.v[i*positions*width:][:positions*width]...)
		row := dy.v[i*(positions+1)*width:][:(positions+1)*width]
		dx = append(dx, row[width:]...)
		for j := range width {
			dt.add(j, row[j])
		}
	}
	out, gx, gt := r.output(n, positions+1, width), r.output(n, positions, width), r.gradient(r.d, 1, 1, width)
	r.do(op.ClassToken, nil, []*arg{x, token}, []*arg{out})
	r.same("y", out, y)
	r.gradients(op.ClassTokenGrad, nil, []*arg{dy}, []*arg{gx, gt}, wanted{"dtoken", gt, dt})
	r.same("dx", gx, dx)
	r.gradients(op.ClassTokenGrad, nil, []*arg{dy}, []*arg{nil, gt}, wanted{"dtoken alone", gt, dt})
}
