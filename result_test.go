package trainctl

import (
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/report/event"
)

// A host that does not see the files of rank 0 has a result without a summary and weights.
func TestResultOfAnotherHost(t *testing.T) {
	dir := t.TempDir()
	r, err := newResult(app.Ended{ExitCode: launch.ExitOK, Dir: event.RunDir{Path: dir}}, nil, filepath.Join(dir, "weights"))
	if err != nil || r.Dir != dir || r.Weights != nil || r.Summary.Steps != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
