// Package pool has max and average pooling and upsampling with their gradients. pool.go is all of pooling
// in plain Go, upsample.go of upsampling, for which bilinear.go has the vector version; halving.go is the vector version for max pooling of 2×2 windows with stride 2, separate.go the one for
// windows that do not overlap, separate_grad.go its gradients, and span.go that of maxima of wide windows and whole planes. All other windows are those of
// overlap.go: frame.go copies planes into frames, overlap_max.go and overlap_mean.go compute, three.go does so for 3×3, and cut.go copies results out.
//
// It imports core/engine/kernel, core/engine/kernel/elementwise, adaptive for means of whole planes, and core/engine/kernel/conv/geometry, which
// aligns scratch memory. Start with pool.go.
package pool
