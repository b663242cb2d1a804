// Package cifar10 serves CIFAR-10 (Krizhevsky, 2009): 32×32 colour images of
// ten classes, from the binary version of its six files.
//
// Open looks in the option root, then in $TRAINCTL_DATA, for the unpacked files
// or for cifar-10-binary.tar.gz, then downloads and unpacks the archive, then,
// if it is told so, draws coloured shapes itself (DatasetSpec.Source says which it was).
// A file that is there and damaged is an error, never a reason to look further.
// The Python version, which torchvision keeps, is not read: it is pickle.
//
// The pixels stay bytes in memory; [Dataset.Fill] augments them and turns them
// into float32: pixel/255, then (x-mean)/std per channel.
//
// It imports core/base/usererr, core/sdk, core/tensor and, of plugins/datasets,
// fetch, shapes and vision. Start with cifar10.go.
package cifar10
