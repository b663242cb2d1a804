// Package bench has the commands of trainctl bench, which measure collectives, training
// steps, data loading, kernels and cores.
//
// It imports cmd/trainctl/internal and core, whose package bench measures. Start with
// bench.go.
package bench
