package devicetest

import (
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func linears(r *rig) {
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 7}, {17, 10, 33}, {64, 32, 16}, {2, 257, 3}, {100, 10, 129}} {
		r.each(shapeName(s[:]...), func(r *rig) { linear(r, s[0], s[1], s[2]) })
	}
	r.each("of_a_sequence", sequence)
}

// linear is y [rows, out] = x [rows, in]·wᵀ + bias and its three gradients.
func linear(r *rig, rows, out, in int) {
	x, w, bias, dy := r.normal(rows, in), r.normal(out, in), r.normal(out), r.normal(rows, out)
	y, dx, dw, db := products(rows*out, in, false), products(rows*in, out, false), products(out*in, rows, false), products(out, rows, false)
	for i := range rows {
		for o := range out {
			for k := range in {
				y.add(i*out+o, x.v[i*in+k]*w.v[o*in+k])
				dx.add(i*in+k, dy.v[i*out+o]*w.v[o*in+k])
				dw.add(o*in+k, dy.v[i*out+o]*x.v[i*in+k])
			}
			db.add(o, dy.v[i*out+o])
		}
	}
	res := r.output(rows, out)
	r.do(graph.LinearOp, nil, []*arg{x, w, nil}, []*arg{res})
	r.check("y without bias", res, y)
	for i := range rows * out {
		y.add(i, bias.v[i%out])
	}
	r.do(graph.LinearOp, nil, []*arg{x, w, bias}, []*arg{res})
	r.check("y", res, y)
	gx, gw, gb := r.output(rows, in), r.gradient(r.d, out, in), r.gradient(r.d, out)
	r.do(graph.LinearGradInputOp, nil, []*arg{dy, w}, []*arg{gx})
	r.check("dx", gx, dx)
	r.gradients(graph.LinearGradWeightOp, nil, []*arg{x, dy}, []*arg{gw}, wanted{"dw", gw, dw})
	r.gradients(graph.LinearGradBiasOp, nil, []*arg{dy}, []*arg{gb}, wanted{"dbias", gb, db})
}

// sequence has a dimension between batch and features.
func sequence(r *rig) {
	const n, l, out, in = 2, 3, 4, 5
	x, w := r.normal(n, l, in), r.normal(out, in)
	y := products(n*l*out, in, false)
	for i := range n * l * out {
		for k := range in {
			y.add(i, x.v[i/out*in+k]*w.v[i%out*in+k])
		}
	}
	res := r.output(n, l, out)
	r.do(graph.LinearOp, nil, []*arg{x, w, nil}, []*arg{res})
	r.check("y", res, y)
}

// embeddings read their indices from the batch: only there can they be wrong.
func embeddings(r *rig) {
	const entries, dim = 7, 5
	index := []int{3, 0, 6, 3, 3, 1}
	batch := tensor.New(tensor.I32, 2, 3)
	copy(batch.I32(), []int32{3, 0, 6, 3, 3, 1})
	r.parts.Input = batch.Spec()
	at := &arg{Operand: plan.Operand{Spec: batch.Spec(), Place: plan.PlaceInput}}
	table, dy := r.normal(entries, dim), r.normal(2, 3, dim)
	y, dt := newWant(len(dy.v)), newWant(len(table.v))
	dt.terms = float64(len(index))
	for i := range dy.v {
		j := index[i/dim]*dim + i%dim
		y.v[i] = table.v[j]
		dt.add(j, dy.v[i])
	}
	res, gt := r.output(2, 3, dim), r.gradient(r.d, entries, dim)
	r.step(graph.EmbeddingOp, nil, []*arg{at, table}, []*arg{res})
	if got := r.run(plan.Args{Input: batch.Data}); got.Err != nil {
		r.t.Fatal(got.Err)
	}
	r.same("y", res, y.v)
	r.step(graph.EmbeddingGradOp, nil, []*arg{at, dy}, []*arg{gt})
	for n := range 2 {
		if got := r.run(plan.Args{Input: batch.Data, Accumulate: n == 1}); got.Err != nil {
			r.t.Fatal(got.Err)
		}
		r.checkScaled("dtable", gt, dt, float64(n+1))
	}
	for _, wrong := range []int32{-1, entries} {
		batch.I32()[2] = wrong
		r.step(graph.EmbeddingOp, nil, []*arg{at, table}, []*arg{res})
		r.refuses(plan.Args{Input: batch.Data}, graph.EmbeddingOp, 2, int(wrong), entries)
	}
}
