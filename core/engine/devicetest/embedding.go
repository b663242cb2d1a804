package devicetest

import (
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	register(op.Embedding, embeddings)
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
	r.step(op.Embedding, nil, []*arg{at, table}, []*arg{res})
	if got := r.run(plan.Args{Input: batch.Data}); got.Err != nil {
		r.t.Fatal(got.Err)
	}
	r.same("y", res, y.v)
	r.step(op.EmbeddingGrad, nil, []*arg{at, dy}, []*arg{gt})
	for n := range 2 {
		if got := r.run(plan.Args{Input: batch.Data, Accumulate: n == 1}); got.Err != nil {
			r.t.Fatal(got.Err)
		}
		r.checkScaled("dtable", gt, dt, float64(n+1))
	}
	for _, wrong := range []int32{-1, entries} {
		batch.I32()[2] = wrong
		r.step(op.Embedding, nil, []*arg{at, table}, []*arg{res})
		r.refuses(plan.Args{Input: batch.Data}, op.Embedding, 2, int(wrong), entries)
	}
}
