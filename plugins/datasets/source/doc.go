// Package source finds the files of a data set that can be downloaded: in the option
// root, in the folder of data sets that $TRAINCTL_DATA names, on a mirror, and if all
// of these fail and the options allow it, generated. It has the options that such data
// sets share. plugins/datasets/mnist and plugins/datasets/cifar10 use it.
//
// It imports core/base/usererr, core/sdk and plugins/datasets/fetch. Start with Find
// in search.go.
package source
