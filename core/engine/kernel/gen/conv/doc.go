// Package conv is the kernels of convolutions: of direct ones (dot.go), depthwise ones
// (planes.go), Winograd's (winograd.go, taps.go), those of images in lanes (nest.go, move_lanes.go), and copies (im2col.go).
// families.go lists them.
package conv
