package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/outline"
)

// outcome is how a run ended. The failure block, the summary, the last event, the exit
// code and the advice are all derived from it.
type outcome struct {
	status  string // as in event.RunDone
	code    int
	failure *launch.Failure // nil where no rank of our launcher failed
	failed  *event.RankFailed
	refused error  // a mistake of the user that a rank found before its first step, with its place
	ended   string // the signal that ended it; "" if none did
	resume  string // what --resume auto would continue from, in words; "" if unknown or not useful
}

// outcome returns how a failed run ended.
func (j *job) outcome(res launch.Result) outcome {
	o := outcome{status: "failed", code: res.ExitCode, failure: res.Failure()}
	if o.code == launch.ExitPreempted {
		o.status = "preempted" // the ranks have verified their checkpoint, and print how to continue
		return o
	}
	switch {
	case res.Signal != nil:
		o.ended = res.Signal.String()
		if o.failure == nil {
			o.status = "interrupted"
		}
	case o.failure != nil && o.failure.Root.ExitCode == launch.ExitDiverged:
		o.status = "diverged"
	}
	if canResume(o.code) {
		o.resume = j.resumable()
	}
	if o.failure != nil {
		if o.resume != "" {
			o.failure.Next = []string{o.resume}
		}
		o.failed = rankFailed(o.failure)
		if r := o.failure.Root.Refusal; r != nil {
			o.refused = AtPlace(j.Config, r.Err())
			if len(r.Problems) == 0 && j.Config.Launch.Nnodes.Int() > 1 { // hosts may have different data
				o.refused = fmt.Errorf("rank %d on %s: %w", o.failure.Root.Rank, o.failure.Root.Host, o.refused)
			}
		}
	}
	return o
}

func rankFailed(f *launch.Failure) *event.RankFailed {
	c := f.Root
	if c.Refusal != nil {
		c.Message = c.Refusal.Message
	}
	return &event.RankFailed{
		FailedRank: c.Rank, Host: c.Host, PID: c.PID, ExitCode: c.ExitCode, Signal: c.Signal,
		Message: c.Message, LastLines: c.LastLines, Advice: strings.Join(f.Advice(), " "),
	}
}

// canResume is false for exit codes after which --resume auto would fail as well.
func canResume(code int) bool {
	switch code {
	case launch.ExitConfig, launch.ExitPlugin, launch.ExitRendezvous, launch.ExitCheckpoint:
		return false
	}
	return true
}

// message is the one line that says what to do next.
func (o outcome) message() string {
	if o.refused != nil {
		return o.refused.Error()
	}
	if o.failure != nil {
		return strings.Join(o.failure.Advice(), " ")
	}
	return o.resume
}

// show writes the outcome for people. It returns what a user has to fix as an error.
// Preempted ranks have reported everything themselves.
func (o outcome) show(w io.Writer) error {
	var text string
	switch {
	case o.refused != nil:
		return o.refused
	case o.status == "preempted":
	case o.failure != nil:
		text = o.failure.Format()
	case o.ended != "":
		text = strings.TrimSpace(fmt.Sprintf("ended by %s. %s", o.ended, o.resume)) + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// proof bounds how long checkpoints are verified at the end of a run.
const proof = 10 * time.Second

// resumable says what --resume auto would continue from. It returns "" on nodes that
// do not see rank 0's run directory.
func (j *job) resumable() string {
	if j.joined {
		dir, _ := newestRun(j.fs, j.Config.Run.Dir, j.Config.Run.Name)
		if filepath.Clean(dir) != filepath.Clean(j.dir.Checkpoints()) {
			return ""
		}
	}
	return resumable(j.fs, j.Config.Run)
}

// resumable says what --resume auto would continue from, after reading the checkpoint
// back and verifying it.
func resumable(fsys checkpoint.FS, run outline.RunConfig) string {
	dir, err := newestRun(fsys, run.Dir, run.Name)
	const none = "There is no checkpoint to continue from; checkpoint.every sets how often one is saved."
	if err != nil || dir == "" {
		return none
	}
	ctx, cancel := context.WithTimeout(context.Background(), proof)
	defer cancel()
	switch c, err := checkpoint.Newest(ctx, fsys, dir); {
	case err == nil:
		return fmt.Sprintf("--resume auto continues from the newest good checkpoint: step %d, %s.", c.Manifest.Step, usererr.Shell(c.Path))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("There are checkpoints: trainctl ckpt verify %s shows which are intact.", usererr.Shell(filepath.Dir(dir)))
	}
	return none
}

// newestRun is the directory of checkpoints that --resume auto uses: that of the newest
// run of the name that has one, "" if none has.
func newestRun(fsys checkpoint.FS, base, name string) (string, error) {
	parent := filepath.Join(base, name)
	entries, err := afero.ReadDir(fsys, parent)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("--resume auto: %w", err)
	}
	best, found := -1, ""
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n < best {
			continue
		}
		dir := event.RunDir{Path: filepath.Join(parent, e.Name())}.Checkpoints()
		if checkpoint.AnyGood(fsys, dir) {
			best, found = n, dir
		}
	}
	return found, nil
}
