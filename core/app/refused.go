package app

import (
	"errors"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
)

// Told is an error of a rank that was reported to its launcher, which shows it once for
// all ranks and with its place in the configuration.
type Told struct{ error }

func (e Told) Unwrap() error { return e.error }

// refuse handles an error from before the first step. It reports a mistake in the
// configuration, or in the data it refers to, to the launcher; without a launcher it
// adds the place in the file here.
func (r *runner) refuse(err error) error {
	o := r.p.Options
	if err == nil || ExitCode(err) != launch.ExitConfig {
		return err
	}
	problems := optionsOf(err)
	if !o.place.launched {
		if len(problems) > 0 {
			return AtPlace(o.Config, problems.Err())
		}
		return err
	}
	e := &event.Refused{Message: usererr.Allowed(err).Error()}
	for _, p := range problems {
		e.Keys, e.Details, e.Help = append(e.Keys, p.Key), append(e.Details, p.Detail), append(e.Help, p.Help)
	}
	r.p.Bus.Emit(e)
	return Told{err}
}

// optionsOf returns the problems in an error. Those from a plugin get the prefix of its
// table of options.
func optionsOf(err error) usererr.List {
	var plugin *host.PluginError
	if errors.As(err, &plugin) {
		err = usererr.Under(string(plugin.Kind)+".options", err)
	}
	return usererr.Problems(err)
}

func problemsOf(e *event.Refused) (l usererr.List) {
	for i, key := range e.Keys {
		if i < len(e.Details) && i < len(e.Help) {
			l = append(l, usererr.Problem{Key: key, Detail: e.Details[i], Help: e.Help[i]})
		}
	}
	return l
}
