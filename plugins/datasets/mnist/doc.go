// Package mnist serves MNIST and Fashion-MNIST: 28×28 grey images of ten
// classes in four IDX files.
//
// Open looks in the option root, then in $TRAINCTL_DATA, then downloads, then,
// if it is told so, draws digits itself (DatasetSpec.Source says which it was). A file
// that is there and damaged is an error, never a reason to look further. The
// pixels stay bytes in memory; [Dataset.Fill] turns them into float32 as
// kernel.Levels says: pixel/255 as torchvision's ToTensor gives, then
// (x-mean)/std as its Normalize does, every operation in float32.
//
// It imports core/base/usererr, core/engine/kernel, core/sdk, core/tensor and,
// of plugins/datasets, digits, fetch and idx. Start with mnist.go.
package mnist
