// Package optimizer updates all parameters with one kernel (kernels/update.cu): each
// thread block updates a part of one parameter. The rules are those of core/engine/optim.
//
// It imports core/engine/cuda, core/engine/plan and core/tensor. Start with optimizer.go.
package optimizer
