// Package mnist holds the end-to-end tests of the main job, configs/mnist-ddp.toml: two
// ranks train two epochs on real MNIST, again with the same bits, and PyTorch and
// TensorBoard read the run.
package mnist
