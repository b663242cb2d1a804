// Package devicetest is the conformance suite of a plan.Device. It runs every
// operation separately, with shapes that are not a multiple of any vector or tile, in
// every element type that the device has, and compares with float64 references that
// are written like the formulas. Then it trains whole models and compares with a
// reference device.
//
//	func TestDevice(t *testing.T) {
//		devicetest.Run(t, devicetest.Options{Device: func() plan.Device { return cpu.New() }})
//	}
//
// Tolerances are computed, not tuned. A reference returns, with each value, the sum
// of the magnitudes of its terms and their number n. With independent roundings of
// relative size u, the error of a sum of n terms is about √n·u times that magnitude
// (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 2.8); the
// suite allows (4 + 2√n)·u, plus half a unit in the last place of the type in which
// the result is stored.
//
// It imports core/contract, core/tensor and core/engine, but no device. Start
// with devicetest.go.
package devicetest
