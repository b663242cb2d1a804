// Command bench measures trainctl against PyTorch DDP over gloo on this machine:
//
//	go run ./bench -python .venv/bin/python
//
// It builds trainctl, runs both in turn with the same model, ranks, batch, threads
// and data, and prints medians and their ratios; -json FILE writes every single run
// too. PyTorch is measured in contiguous and in channels-last layout, with -compile
// also compiled, and its fastest variant counts. If Python has no torch, only
// trainctl is measured, and the output gives the reason.
//
// The cases are the models that trainctl knows by name and the networks in models/:
// configurations with a [model] and the shape of its images, from which both sides
// build the same layers. -model FILE measures another one. Transformers train on
// windows of tokens, with AdamW instead of SGD. -cpu avx2 limits both
// sides to AVX2.
//
// Samples per second exclude the first steps of both sides. Memory is the
// proportional set size of all processes of a job, sampled four times a second,
// divided by the number of ranks.
//
// It imports core/bench, which measures the parts of a step. Start with main.go.
package main
