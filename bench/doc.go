// Command bench measures trainctl against PyTorch DDP over gloo on this machine:
//
//	go run ./bench -python .venv/bin/python
//
// It builds trainctl, runs both sides in turn with the same model, ranks, batch,
// threads and data, and prints medians and their ratios; -json FILE keeps them
// with every single run. PyTorch is measured in contiguous and in channels-last
// layout, with -compile compiled too, and the best counts. Where Python has no
// torch only trainctl is measured, and the output says why.
//
// The cases are the models that trainctl knows by name and the networks of
// models/: configurations with a [model] and the shape of its images, from which
// both sides build the same layers. -model FILE measures another one. -cpu avx2
// holds both sides to AVX2.
//
// Samples per second leave out the first steps of both sides. Memory is the
// proportional set size of all processes of a job, looked at four times a
// second, divided by its ranks.
//
// It imports core/bench. Start with main.go.
package main
