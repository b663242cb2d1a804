package cuda

import "testing"

// Every kernel is also a C++ program.
func TestKernelsAreEmulated(t *testing.T) {
	for d, k := range kernels(t) {
		for _, m := range kernelName.FindAllStringSubmatch(source(d, emulatedBlock), -1) {
			if k.has(&append([]byte(m[1]), 0)[0]) != 0 {
				t.Errorf("%v: no %s", d, m[1])
			}
		}
	}
}
