// Package gpu holds the end-to-end tests on fake GPUs, which core/engine/cuda/cudatest
// compiles: ranks that compute on them (gpu_test.go), NCCL between them (nccl_test.go), and
// the table that gputest/run.sh prints on a machine with real ones (table_test.go).
package gpu
