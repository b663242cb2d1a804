// Package dl opens C libraries at run time and gives their functions to Go,
// without cgo and without needing the libraries to build.
//
// A binding is a struct of function fields. Their tags map C symbols to Go
// functions and to the library version that introduced them:
//
//	type Driver struct {
//		Init     func(flags uint32) error                  `dl:"cuInit"`
//		MemAlloc func(p *DevicePtr, bytes uintptr) error   `dl:"cuMemAlloc_v2"`
//		Launch   func(e GraphExec, s Stream) error         `dl:"cuGraphLaunch,10.0"`
//	}
//
// [Bind] fills the fields. A symbol without a version is required; one with a
// version may be missing, and its function then returns a [*MissingError] that
// names the version. A function whose Go
// result is error is a C function whose int result is a status, 0 for success.
//
// With the build tag nogpu, and on linux/arm64 without the tag gpu, there is no dynamic
// linker: every [Open] fails with [ErrUnsupported], and the executable is static. It then
// starts where glibc's loader is absent, as on most small arm64 systems.
//
// It imports nothing else of this module. Start with bind.go.
package dl
