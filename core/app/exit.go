package app

import (
	"errors"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/update"
)

// exitCoder is an error with its own exit code.
type exitCoder interface{ ExitCode() int }

// RankCode is ExitCode for a rank of our launcher, which distinguishes ends that otherwise share a
// code: a configuration error and a panic, a run that diverged or cannot be joined and one that failed.
func RankCode(err error) int {
	switch code := ExitCode(err); {
	case code == launch.ExitConfig:
		return launch.ExitRefused
	case errors.As(err, new(*update.Diverged)):
		return launch.ExitDiverged
	case errors.Is(err, rank.ErrNoModel):
		return launch.ExitNoModel
	default:
		return code
	}
}

// ExitCode returns the code for an error: its own if it has one, else by kind.
func ExitCode(err error) int {
	var coder exitCoder
	var bad *config.Error
	var plugin *host.StartError
	var said *sdk.Error
	var late *rank.TimeoutError
	var preempted *train.Preempted
	var locked *checkpoint.LockedError
	switch {
	case err == nil:
		return launch.ExitOK
	case errors.As(err, &coder):
		return coder.ExitCode()
	case errors.As(err, &bad) && !pluginsAlone(bad):
		return launch.ExitConfig
	case errors.As(err, &plugin) && !plugin.Fault:
		return launch.ExitPlugin
	case errors.As(err, &said) && said.Code == sdk.CodeUnavailable:
		return launch.ExitPlugin
	case errors.Is(err, checkpoint.ErrUnusable), errors.Is(err, checkpoint.ErrNone):
		return launch.ExitCheckpoint
	case errors.As(err, &late):
		return launch.ExitRendezvous
	case errors.As(err, &preempted) && preempted.Saved:
		return launch.ExitPreempted
	case errors.As(err, &preempted):
		return launch.ExitTerminated
	case errors.As(err, &locked), usererr.Problems(err) != nil, errors.As(err, new(*rank.EnvError)), errors.As(err, new(*rank.SecretError)):
		return launch.ExitConfig
	case blamesPeer(err):
		return launch.ExitPeer
	}
	return launch.ExitFailed
}

// blamesPeer reports whether a rank failed because another one did.
func blamesPeer(err error) bool {
	var lost *sdk.PeerError
	var stalled *sdk.StallError
	var failed *ddp.PeerFailed
	var left *rank.PeerLeftError
	return errors.As(err, &lost) || errors.As(err, &stalled) || errors.As(err, &failed) || errors.As(err, &left) || errors.Is(err, rank.ErrLate)
}

// pluginsAlone reports whether the only problem of a configuration is that plugins
// could not be started.
func pluginsAlone(e *config.Error) bool {
	errs := 0
	for _, d := range e.Diagnostics {
		if d.Severity == config.SeverityError {
			errs++
		}
	}
	var plugin *host.StartError
	return errs == len(e.Causes) && errors.As(e, &plugin)
}
