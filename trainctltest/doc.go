// Package trainctltest trains in Go tests: ranks are goroutines of the test, files go into its
// temporary directory, and the backend is one in memory, TCP, or any other.
//
//	func TestLearns(t *testing.T) {
//		r := trainctltest.Run(t, trainctl.File("train.toml"), 2, trainctltest.Memory())
//		trainctltest.Golden(t, r.Losses, "testdata/losses.json", 1e-4)
//	}
//
// [CheckLayer], [CheckLoss] and [CheckOptimizer] check definitions of package custom.
//
// It imports trainctl, custom, core/base, core/engine, core/sdk and core/tensor. Start with run.go. The compatibility
// promise of package trainctl holds for it, too.
package trainctltest
