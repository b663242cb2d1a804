// Package nccl is the backend plugin "nccl": collectives between NVIDIA GPUs.
//
// It looks for libcuda and libnccl at run time and never needs them to build.
// This version computes on CPUs only, so there are no GPU buffers for NCCL to
// reduce yet: Open says what was found, what is missing and what to use
// instead. The name, its options and its errors are those that GPU runs keep.
package nccl
