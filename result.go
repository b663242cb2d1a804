package trainctl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// Summary is the content of the run's summary.json.
type Summary = event.Summary

// Result is the result of a run.
type Result struct {
	Summary Summary
	Dir     string // of the run's files; a host that does not share the first one's has logs alone, and no Summary

	// Weights are the parameters and buffers after the last step, by the names of the state dict; nil
	// if the run has failed. The caller owns them.
	Weights map[string]tensor.Tensor
}

// RunError reports how a run failed.
type RunError struct {
	ExitCode int    // as of the command: docs/cli.md lists them
	Rank     int    // of the rank that failed first; -1: none
	Message  string // of that rank

	err error // of that rank, if it is a thread
}

func (e *RunError) Error() string {
	switch {
	case e.ExitCode == launch.ExitPreempted:
		return "training was stopped and saved; Resume(\"auto\") continues it"
	case e.Rank < 0:
		return fmt.Sprintf("training ended with exit code %d", e.ExitCode)
	}
	return fmt.Sprintf("rank %d failed: %s", e.Rank, e.Message)
}

// Unwrap returns the error of the rank that failed first, if the ranks are threads.
func (e *RunError) Unwrap() error { return e.err }

func newResult(end app.Ended, err error, weights string) (*Result, error) {
	if end.Dir.Path == "" {
		return nil, err
	}
	r := &Result{Dir: end.Dir.Path}
	sum, serr := event.ReadSummary(afero.NewOsFs(), end.Dir.Summary())
	if serr == nil {
		r.Summary = sum
	} else if errors.Is(serr, fs.ErrNotExist) {
		serr = nil // rank 0 is on another host
	}
	if end.ExitCode != launch.ExitOK {
		e := &RunError{ExitCode: end.ExitCode, Rank: -1, err: end.Err}
		if f := end.Failed; f != nil {
			e.Rank, e.Message = f.FailedRank, lastMessage(f)
		}
		return r, errors.Join(e, err)
	}
	if err = errors.Join(err, serr); err == nil {
		r.Weights, err = readWeights(weights)
	}
	return r, err
}

// lastMessage is why a rank failed: what its launcher knows, or what it printed last.
func lastMessage(f *event.RankFailed) string {
	if f.Message != "" || len(f.LastLines) == 0 {
		return f.Message
	}
	for _, line := range slices.Backward(f.LastLines) {
		if text, is := strings.CutPrefix(line, "error: "); is {
			return text
		}
	}
	return f.LastLines[len(f.LastLines)-1]
}

func readWeights(path string) (map[string]tensor.Tensor, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // rank 0 is on another host
	}
	if err != nil {
		return nil, err
	}
	named, _, err := safetensors.Read(b)
	if err != nil {
		return nil, err
	}
	all := map[string]tensor.Tensor{}
	for _, n := range named {
		all[n.Name] = n.Tensor
	}
	return all, nil
}
