package driver

import "fmt"

// CallError is a library call that failed.
type CallError struct {
	Call   string // the C function
	Status error  // CUResult, NVRTCResult, BlasStatus, DNNStatus or NCCLResult
}

func (e *CallError) Error() string { return e.Call + ": " + e.Status.Error() }

// Unwrap returns the library's code.
func (e *CallError) Unwrap() error { return e.Status }

// status makes the function that turns a library's codes into errors.
func status[T interface {
	~int32
	error
}]() func(string, int32) error {
	return func(symbol string, code int32) error { return &CallError{Call: symbol, Status: T(code)} }
}

// named prints a code with the name that C programs know it by.
func named(names map[int32]string, prefix string, code int32) string {
	if n, ok := names[code]; ok {
		return prefix + n
	}
	return fmt.Sprintf("%sstatus %d", prefix, code)
}
