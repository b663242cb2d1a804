// Package numpy serves arrays that NumPy saved: .npy files, and members of .npz archives.
//
// It imports core/base/openfile, core/base/pattern, core/base/usererr, core/sdk, core/tensor and plugins/datasets/samples. Start with numpy.go.
package numpy
