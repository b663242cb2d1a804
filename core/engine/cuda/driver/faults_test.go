package driver

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Codes that spoil the context are told from those that do not.
func TestFault(t *testing.T) {
	call := func(code CUResult) error { return fmt.Errorf("step 3: %w", &CallError{Call: "cuX", Status: code}) }
	for _, code := range []CUResult{ECCUncorrectable, IllegalAddress, LaunchFailed, 702, 710, 716, UnknownError} {
		if got, meaning := Fault(call(code)); got != code || meaning == "" {
			t.Errorf("%v: %v, %q", code, got, meaning)
		}
	}
	for _, err := range []error{nil, errors.New("x"), call(OutOfMemory), call(NotReady), call(InvalidValue), call(701), call(HostMemoryRegistered), call(StreamCaptureInvalidated)} {
		if _, meaning := Fault(err); meaning != "" {
			t.Errorf("%v is a fault: %s", err, meaning)
		}
	}
	for code := range faults {
		if name := code.Error(); strings.Contains(name, "status") {
			t.Errorf("%s has no name", name)
		}
	}
}
