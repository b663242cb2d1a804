// Package cuda runs plans on an NVIDIA GPU.
package cuda
