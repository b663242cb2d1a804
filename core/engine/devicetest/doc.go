// Package devicetest holds a plan.Device to what its operations mean. Every
// operation runs alone, over shapes that do not fit any vector or tile, in every
// element type the device has, against references in float64 that are written
// as the formulas read; then whole models train beside a reference device.
//
//	func TestDevice(t *testing.T) {
//		devicetest.Run(t, devicetest.Options{Device: func() plan.Device { return cpu.New() }})
//	}
//
// How far a result may be off is not a number that somebody liked. A reference
// returns, beside each value, the sum of the magnitudes of the terms that it was
// made of and their number n. With roundings of relative size u that do not know
// of each other, a sum of n terms is off by about √n·u times that magnitude
// (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 2.8);
// the suite grants (4 + 2√n)·u, and half a unit in the last place of the type
// that the result is stored in.
//
// It imports core/contract, core/tensor and core/engine, but no device. Start
// with devicetest.go.
package devicetest
