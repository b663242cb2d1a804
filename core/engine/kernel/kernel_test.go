package kernel

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	have := []Level{AVX2, Generic}
	for want, level := range map[string]Level{"": AVX2, "avx2": AVX2, "generic": Generic} {
		if got, err := resolve(want, have); got != level || err != nil {
			t.Errorf("%s=%q gives %v, %v; want %v", EnvCPU, want, got, err, level)
		}
	}
	for _, want := range []string{"avx512", "sse9"} {
		_, err := resolve(want, have)
		if wantErr := fmt.Sprintf(`TRAINCTL_CPU=%q: this CPU has avx2, generic; set one of these or unset it`, want); err == nil || err.Error() != wantErr {
			t.Errorf("%s=%q: error %v, want %s", EnvCPU, want, err, wantErr)
		}
	}
}

func TestImpossibleLevelPanicsAtTheFirstKernel(t *testing.T) {
	oldLevel, oldErr := active, activeErr
	defer func() { active, activeErr = oldLevel, oldErr }()
	active, activeErr = resolve("avx1024", Available())
	if _, err := Active(); !errors.Is(err, activeErr) {
		t.Errorf("Active gives error %v, want %v", err, activeErr)
	}
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), EnvCPU) {
			t.Errorf("panic %v, want one that names %s", err, EnvCPU)
		}
	}()
	Head(1)
}
