package app

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda"
)

// Without a driver "auto" is the CPU and says why, "cuda" is refused with the
// exit code of what is missing; "cpu" does not look for one.
func TestSurveyWithoutADriver(t *testing.T) {
	t.Setenv("TRAINCTL_LIBCUDA", filepath.Join(t.TempDir(), "libcuda.so.1"))
	m, err := Survey(t.Context(), "auto")
	if err != nil || m.Device != "cpu" || !strings.Contains(m.Why, "no NVIDIA driver") || strings.Contains(m.Why, "install") {
		t.Errorf("auto: %+v, %v", m, err)
	}
	var missing *cuda.MissingError
	if _, err := Survey(t.Context(), "cuda"); !errors.As(err, &missing) || missing.ExitCode() != 3 || !strings.Contains(err.Error(), `run.device = "cuda": no NVIDIA driver`) {
		t.Errorf("cuda: %v", err)
	}
	if m, err := Survey(t.Context(), "cpu"); err != nil || m.Device != "cpu" || m.Why != "" {
		t.Errorf("cpu: %+v, %v", m, err)
	}
}
