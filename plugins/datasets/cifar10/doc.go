// Package cifar10 serves CIFAR-10 (Krizhevsky, 2009): 32×32 colour images of
// ten classes, from the binary version of its six files.
//
// Open looks in the option root and then in $TRAINCTL_DATA for the unpacked files or
// for cifar-10-binary.tar.gz. If there are none, it downloads and unpacks the archive.
// If that fails too, and the option fallback allows it, it draws coloured shapes;
// DatasetSpec.Source has the source that was used. A damaged file is an error, never a
// reason to look further. The Python version, which torchvision uses, is not read,
// because it is a pickle.
//
// The pixels stay bytes in memory; Fill augments them and turns them
// into float32: pixel/255, then (x-mean)/std per channel.
//
// It imports core/base/openfile, core/base/usererr, core/sdk, core/tensor and, of plugins/datasets,
// fetch, shapes and vision. Start with cifar10.go.
package cifar10
