package rig

import "fmt"

// Synthetic are the tables of a generated data set of images of that shape.
func Synthetic(shape string, classes, train, test int) string {
	return fmt.Sprintf("[dataset]\nplugin = \"synthetic\"\n[dataset.options]\nshape = %s\nclasses = %d\ntrain_samples = %d\ntest_samples = %d\n", shape, classes, train, test)
}

// MomentumTables set SGD with momentum, and write only what the tests compare.
const MomentumTables = `
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
[checkpoint]
every = "100 epochs"
[metrics]
tensorboard = false
`

// StatefulTables train six steps an epoch on two ranks, the last one short, with everything that
// has state: dropout, batch norm, a schedule with warm-up. The optimizer is left to the test.
var StatefulTables = `
[launch]
nproc_per_node = 2
` + Synthetic("[1, 8, 8]", 4, 90, 30) + `[train]
epochs = 2
per_rank_batch = 8
[model]
layers = [
  { type = "conv2d", out_channels = 6, kernel_size = 3, padding = 1 },
  { type = "batchnorm2d" },
  { type = "relu" },
  { type = "maxpool2d", kernel_size = 2 },
  { type = "flatten" },
  { type = "linear", out_features = 24 },
  { type = "relu" },
  { type = "dropout", p = 0.3 },
  { type = "linear", out_features = 4 },
]
[lr_scheduler]
name = "cosine"
unit = "step"
warmup_steps = 4
[checkpoint]
every = "1 step"
keep = 0
[metrics]
tensorboard = false
`

// SGD is the table of an optimizer with momentum and weight decay.
const SGD = "[optimizer]\nname = \"sgd\"\nlr = 0.05\nmomentum = 0.9\nweight_decay = 1e-3\n"

// NormTables are a model whose batch norms see images of few pixels, so that a
// rank's own statistics are far from those of all.
var NormTables = Synthetic("[2, 9, 9]", 5, 240, 50) + `[model]
layers = [
  { name = "conv1", type = "conv2d", out_channels = 6, kernel_size = 3, bias = false },
  { name = "bn1", type = "batchnorm2d" },
  { type = "relu" },
  { type = "maxpool2d", kernel_size = 2 },
  { name = "conv2", type = "conv2d", out_channels = 8, kernel_size = 3 },
  { name = "bn2", type = "batchnorm2d" },
  { type = "relu" },
  { type = "flatten" },
  { name = "fc", type = "linear", out_features = 5 },
]
[train]
global_batch = 24
max_steps = 15
epochs = 2
` + MomentumTables

// ElasticSamples is the number of samples of an epoch of ElasticTables.
const ElasticSamples = 101

// ElasticTables train epochs of 101 samples, which no number of ranks divides.
var ElasticTables = Synthetic("[1, 8, 8]", 4, ElasticSamples, 20) + `[model]
name = "mlp"
hidden = [16]
[sampler]
pad = "none"
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
[checkpoint]
every = "1 step"
keep = 0
[metrics]
tensorboard = false
`
