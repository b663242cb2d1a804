package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
)

// restarter is what a backend can do beside host.Collectives: begin anew.
type restarter interface {
	Restart(ctx context.Context) error
}

// heals reports whether a backend that breaks is replaced.
func (t *Trainer) heals() bool {
	_, ok := t.Backend.(restarter)
	return ok && t.Settings.BackendRestarts > 0 && t.World.Size > 1
}

// replaceable tells a group that broke, because a plugin died or hangs, from
// ranks that want different things, which a new group would want again.
func replaceable(err error) bool {
	var failed *host.PluginError
	if !errors.As(err, &failed) || failed.Kind != sdk.KindBackend {
		return false
	}
	var said *sdk.Error
	return errors.Is(err, host.ErrDied) || errors.Is(err, host.ErrHung) ||
		errors.As(err, new(*sdk.PeerError)) || errors.As(err, new(*sdk.StallError)) ||
		errors.As(err, &said) && said.Code == sdk.CodePanic
}

// heal forms a new process group after cause broke the old one, and tells
// whether this rank is through its section by what the others know. Without a
// cause the rank is at the end of the run, and heals for others until all are.
func (t *Trainer) heal(ctx context.Context, s *section, cause error) (through bool, err error) {
	begin, ended := time.Now(), cause == nil
	ctx = context.WithoutCancel(ctx) // a step that was begun is ended before the run stops
	for {
		if cause != nil && !t.mayReplace(cause) {
			return false, t.exhausted(cause)
		}
		all, err := t.compare(ctx, s, cause)
		if err != nil {
			return false, alongside(cause, err)
		}
		v, err := judge(all)
		switch {
		case err != nil:
			return false, alongside(cause, err)
		case v.whole:
			return true, nil
		}
		if err := t.replace(ctx); err != nil {
			return false, err
		}
		t.group.Continue(v.seq)
		t.restarted(v.cause, begin)
		behind := t.at.Section < v.section
		if !behind && s.undo != nil {
			if err := s.undo(); err != nil {
				return false, err
			}
		}
		if cause = t.giveAgain(v); cause != nil || ended {
			continue
		}
		if behind {
			t.given = v.section
			restoreBits(s.result, v.result)
		}
		return behind, nil
	}
}

func (t *Trainer) mayReplace(cause error) bool {
	return replaceable(cause) && t.groups < t.Settings.BackendRestarts
}

// alongside adds to a cause why it could not be healed. The cause is what
// decides how the rank ends.
func alongside(cause, err error) error {
	if cause == nil {
		return err
	}
	return fmt.Errorf("%w; no new backend: %v", cause, err)
}

// exhausted says that a cause would have been healed.
func (t *Trainer) exhausted(cause error) error {
	if !replaceable(cause) {
		return cause
	}
	return fmt.Errorf("backend.restarts = %d are used up: %w", t.Settings.BackendRestarts, cause)
}

// compare exchanges with all ranks where they stand. They wait for each other
// as long as in a collective.
func (t *Trainer) compare(ctx context.Context, s *section, cause error) ([]standing, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Settings.BackendTimeout)
	defer cancel()
	t.at.Name, t.at.Seq, t.at.Cause, t.at.Own = s.name, t.group.Seq(), "", false
	if cause != nil {
		t.at.Cause, t.at.Own = brief(cause), errors.Is(cause, host.ErrDied) || errors.Is(cause, host.ErrHung)
	}
	mine, err := json.Marshal(t.at)
	if err != nil {
		panic("train: " + err.Error())
	}
	t.rounds++
	replies, err := t.Gather(ctx, fmt.Sprintf("backend, round %d", t.rounds), mine)
	if err != nil {
		return nil, err
	}
	all := make([]standing, len(replies))
	for r, b := range replies {
		if err := json.Unmarshal(b, &all[r]); err != nil {
			return nil, fmt.Errorf("where rank %d stands: %w", r, err)
		}
	}
	return all, nil
}

// brief is a cause without the plugin's last lines.
func brief(err error) string {
	var failed *host.PluginError
	if errors.As(err, &failed) {
		return fmt.Sprintf("backend plugin %q (pid %d): %v", failed.Name, failed.PID, failed.Cause)
	}
	return err.Error()
}

// assemble brings the run's first group about.
func (t *Trainer) assemble(ctx context.Context) error {
	begin := time.Now()
	err := t.meet(ctx, false)
	if !t.anotherMay(err) {
		return err
	}
	cause := err.Error()
	if err := t.replace(ctx); err != nil {
		return err
	}
	t.restarted(cause, begin)
	return nil
}

// replace makes a new group of new plugins, and another one if a plugin dies on
// the way, as long as restarts are left. All ranks count alike.
func (t *Trainer) replace(ctx context.Context) error {
	for {
		t.groups++
		bounded, cancel := context.WithTimeout(ctx, t.Settings.BackendInit)
		err := t.meet(bounded, true)
		cancel()
		if !t.anotherMay(err) {
			return err
		}
	}
}

// anotherMay reports whether a group that did not come about is worth another.
func (t *Trainer) anotherMay(err error) bool {
	var failed *meetingError
	return errors.As(err, &failed) && failed.again && t.heals() && t.groups < t.Settings.BackendRestarts
}

func (t *Trainer) restarted(cause string, begin time.Time) {
	t.Events.Emit(&event.BackendRestarted{Generation: t.groups + 1, Step: t.pos.Step + 1, Cause: cause, TookMS: ms(time.Since(begin))})
}

// giveAgain repeats the broadcast that a rank has missed.
func (t *Trainer) giveAgain(v verdict) error {
	for _, s := range []*section{&t.parts.weights, &t.parts.buffers, &t.parts.carry} {
		if s.name == v.repeat {
			return s.repeat()
		}
	}
	return nil
}

// meet forms a group of the backends that run, or of new ones. It fails on all
// ranks if it does on one, except when a rank is gone or no restart is allowed.
func (t *Trainer) meet(ctx context.Context, anew bool) error {
	endpoint, err := t.beReached(ctx, anew)
	if err != nil && !t.heals() {
		return err
	}
	endpoints, err := t.tell(ctx, "endpoints", endpoint, err)
	if err != nil {
		return err
	}
	if err = t.Backend.Connect(ctx, endpoints); !t.heals() {
		return err
	}
	_, err = t.tell(ctx, "connected", nil, err)
	return err
}

// beReached is this rank's way up to where others can connect to it.
func (t *Trainer) beReached(ctx context.Context, anew bool) ([]byte, error) {
	if anew {
		if err := t.Backend.(restarter).Restart(ctx); err != nil {
			return nil, err
		}
		if err := t.openBackend(ctx); err != nil {
			return nil, err
		}
	}
	if err := t.Backend.Attach(ctx, t.arena); err != nil {
		return nil, err
	}
	if err := t.lend(ctx); err != nil {
		return nil, err
	}
	return t.Backend.Listen(ctx)
}

// tell gives all ranks what each has. If one failed, all get a *meetingError.
func (t *Trainer) tell(ctx context.Context, what string, mine []byte, failure error) ([][]byte, error) {
	r := report{Value: mine}
	if failure != nil {
		r.Failure, r.Again = brief(failure), replaceable(failure)
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic("train: " + err.Error())
	}
	replies, err := t.Gather(ctx, fmt.Sprintf("backend %d, %s", t.groups+1, what), b)
	if err != nil {
		return nil, errors.Join(failure, err)
	}
	values := make([][]byte, len(replies))
	var worst *meetingError
	for rank, b := range replies {
		var r report
		if err := json.Unmarshal(b, &r); err != nil {
			return nil, fmt.Errorf("%s of rank %d: %w", what, rank, err)
		}
		if values[rank] = r.Value; r.Failure != "" && (worst == nil || r.Again && !worst.again) {
			worst = &meetingError{again: r.Again, err: newPeerFailed(rank, r.Failure)}
		}
	}
	if worst == nil {
		return values, nil
	}
	if failure != nil && !worst.again {
		worst.err = failure // this rank's own says most
	}
	return nil, worst
}

// report is what a rank has for the others on the way to a group.
type report struct {
	Value   []byte `json:",omitempty"`
	Failure string `json:",omitempty"`
	Again   bool   `json:",omitempty"` // a new plugin may do better
}

// meetingError is why a group did not come about, on every rank.
type meetingError struct {
	again bool // it was a plugin that died: worth another one
	err   error
}

func (e *meetingError) Error() string { return e.err.Error() }

func (e *meetingError) Unwrap() error { return e.err }

// conclude keeps a rank that is through the run until all are: another one may
// need a new group for the rest.
func (t *Trainer) conclude(ctx context.Context) error {
	if !t.heals() || t.concluded {
		return nil
	}
	t.at.Section++
	_, err := t.heal(ctx, &t.parts.end, nil)
	t.concluded = err == nil
	return err
}
