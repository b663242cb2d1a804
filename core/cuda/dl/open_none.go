//go:build !((linux && (amd64 || arm64)) || darwin) || nogpu

package dl

func dlopen(string) (uintptr, error) { return 0, ErrUnsupported }

func dlsym(uintptr, string) uintptr { return 0 }

func register(any, uintptr) { panic("dl: no library can be open in this build") }

// Call panics: no library can be open in this build.
func Call(uintptr, ...uintptr) int32 { panic("dl: no library can be open in this build") }
