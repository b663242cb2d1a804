//go:build !((linux && (amd64 || (arm64 && gpu))) || darwin) || nogpu

package dl

func dlopen(string) (uintptr, error) { return 0, ErrUnsupported }

func dlsym(uintptr, string) uintptr { return 0 }

func register(any, uintptr) { panic("dl: no library can be opened in this build") }

// Words are the integer and pointer arguments of a call.
type Words [16]uintptr

// Call panics: no library can be opened in this build.
func Call(uintptr, int, Words) int32 { panic("dl: no library can be opened in this build") }
