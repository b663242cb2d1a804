// Package optimizer updates all parameters by one kernel (kernels/update.cu):
// a block of threads has a part of one of them. The rules are those of core/engine/optim.
//
// It imports core/engine/cuda, core/engine/plan and core/tensor. Start with optimizer.go.
package optimizer
