// Package mnist serves MNIST and Fashion-MNIST: 28×28 grey images of ten
// classes in four IDX files.
//
// Open looks in the option root, then in $TRAINCTL_DATA, and then downloads the files.
// If that fails too, and the option fallback allows it, it draws digits;
// DatasetSpec.Source has the source that was used. A damaged file is an error, never a
// reason to look further. The pixels stay bytes in memory; Fill augments them and converts them
// to float32 with image.Levels: pixel/255 as torchvision's ToTensor, then (x-mean)/std
// as its Normalize, every operation in float32.
//
// It imports core/base/usererr, core/engine/kernel, core/sdk, core/tensor and,
// of plugins/datasets, digits, fetch, idx, source and vision. Start with mnist.go.
package mnist
