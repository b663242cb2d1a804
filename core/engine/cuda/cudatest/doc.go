// Package cudatest provides CUDA for tests without a GPU: its own libcuda, libnvrtc
// and libnccl, built if there is a C++ compiler, run the real kernel sources on the
// CPU. Everything above them is what runs on a GPU: the bindings, the device, the
// training loop, and worker and plugin processes that share memory and events.
//
// It tests that indices, formulas and the order of copies are right. It does not
// test speed, or how NVIDIA's libraries behave.
//
// It imports core/base/dl and core/engine/cuda/driver. Start with
// cudatest.go.
package cudatest
