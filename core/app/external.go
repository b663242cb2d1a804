package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/afero"
	"go.uber.org/fx"

	"github.com/trainctl/trainctl/core/app/sinks"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/observer"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/update"
)

// externalRank does for a rank started by torchrun, srun or mpirun what our launcher does
// for its ranks: it finds what to resume from, agrees with the other ranks on a run
// directory, writes the rank's log there, looks for ranks that delay the job, and
// reports how the job ended.
type externalRank struct {
	o       Options
	world   rank.World // zero where the environment does not make sense
	fs      checkpoint.FS
	log     *sinks.RankLog
	account *sinks.Account // of rank 0
	stalls  *stalls        // of rank 0, once it has a run directory
	stop    func()         // ends stalls

	observers *observer.Sink // of rank 0; nil without any

	mu    sync.Mutex
	dir   event.RunDir     // zero until it is agreed on
	rank0 event.Invitation // on the others
}

func newExternalRank(o Options) (*externalRank, error) {
	e := &externalRank{o: o, fs: checkpoint.OsFS(), log: &sinks.RankLog{}, account: &sinks.Account{Began: o.Started}, stop: func() {}}
	w, err := World()
	if err != nil {
		return e, nil // the code that needs the world reports the error
	}
	if e.world = w; o.Resume != "" && w.Rank == 0 { // others read nothing
		j := job{Options: o, fs: e.fs}
		e.o.Resume, err = j.findResume()
	}
	return e, err
}

// watch adds the sinks of this type to a rank's bus. dir is rank 0's run directory, and
// zero on the others.
func (e *externalRank) watch(bus *event.Bus, dir event.RunDir) {
	bus.Add(e.log)
	if dir.Path == "" {
		return
	}
	e.useRunDir(bus, dir)
	e.observers = newObservers(e.o, bus, func() (event.RunDir, string) { return dir, "" })
	bus.Add(e.account)
	e.stalls = newStalls(dir, bus)
	bus.Add(event.Func(func(r event.Record) { e.stalls.progress(r.Rank, r.Event) }))
	e.stop = e.stalls.start()
}

// useRunDir sets the run directory, and opens the rank's log there.
func (e *externalRank) useRunDir(bus *event.Bus, dir event.RunDir) {
	e.mu.Lock()
	e.dir = dir
	e.mu.Unlock()
	warn := func(err error) {
		go bus.Emit(&event.Warning{Source: "log", Message: fmt.Sprintf("rank %d's log cannot be written for now: %v", e.world.Rank, err)})
	}
	if err := e.log.Open(e.fs, dir, e.world.Rank, warn); err != nil {
		bus.Emit(&event.Warning{Source: "log", Message: fmt.Sprintf("rank %d writes no log: %v", e.world.Rank, err)})
	}
}

// runDirKey is the key under which rank 0 publishes its run directory.
const runDirKey = "run directory"

// agree makes all ranks use rank 0's run directory, or one of their own host where they
// do not see it.
func (e *externalRank) agree(ctx context.Context, store rank.Store, bus *event.Bus) (event.RunDir, error) {
	if e.world.Rank == 0 {
		return e.dir, e.invite(ctx, store)
	}
	text, err := store.Get(ctx, runDirKey)
	if err != nil {
		return event.RunDir{}, nil // the code that needs the other ranks reports the error
	}
	var inv event.Invitation
	if err := json.Unmarshal(text, &inv); err != nil || inv.Path == "" {
		return event.RunDir{}, err
	}
	return e.join(inv, bus)
}

// invite sends rank 0's run directory to the other ranks, or that it has none.
func (e *externalRank) invite(ctx context.Context, store rank.Store) error {
	var inv event.Invitation
	var err error
	if e.dir.Path != "" {
		inv, err = e.dir.Invite()
	}
	text, jerr := json.Marshal(inv)
	return errors.Join(err, jerr, store.Set(ctx, runDirKey, text))
}

// join is agree on the other ranks.
func (e *externalRank) join(inv event.Invitation, bus *event.Bus) (event.RunDir, error) {
	dir, _, err := event.JoinRunDir(e.fs, e.o.Config.Run.Dir, e.o.Config.Run.Name, inv)
	if err != nil {
		return dir, err
	}
	e.mu.Lock()
	e.rank0 = inv
	e.mu.Unlock()
	e.useRunDir(bus, dir)
	if there, _ := afero.Exists(e.fs, dir.Config()); !there && e.world.LocalRank == 0 {
		err = writeConfig(e.fs, dir, e.o.Config)
	}
	return dir, err
}

// ended reports the end of the rank, and returns the error with what to continue from.
func (e *externalRank) ended(err error) error {
	e.stop()
	defer e.log.End()
	if err == nil {
		e.endObservers()
		return e.reportSuccess()
	}
	if code := ExitCode(err); code == launch.ExitPreempted || code == launch.ExitTerminated {
		e.log.Say(err.Error())
	} else {
		e.log.Say("error: " + err.Error())
		writeTorchrunError(err)
	}
	if e.world.Rank != 0 || e.dir.Path == "" {
		return err
	}
	o := e.outcome(err)
	if o.resume != "" {
		e.log.Say(o.resume)
	}
	werr := writeEnd(e.fs, e.dir, e.o.Config.Metrics.JSONL, e.account.SummaryOf(o.status, e.world.RestartCount), o, e.observers)
	e.endObservers()
	if o.resume != "" && o.failed != nil {
		err = fmt.Errorf("%w\n%s", err, o.resume)
	}
	if werr != nil {
		fmt.Fprintf(e.o.Log, "warning: %v\n", werr)
	}
	return err
}

func (e *externalRank) endObservers() {
	endObservers(e.observers, e.fs, e.dir, e.o.Config.Metrics.JSONL, func(w *event.Warning) {
		e.log.Say("warn " + w.Source + ": " + w.Message)
		fmt.Fprintf(e.o.Log, "warning: %s\n", w.Message)
	})
}

// writeTorchrunError writes the error where torchrun's failure report reads it, on every node
// (TORCHELASTIC_ERROR_FILE, PyTorch
// torch/distributed/elastic/multiprocessing/errors).
func writeTorchrunError(err error) {
	path := os.Getenv("TORCHELASTIC_ERROR_FILE")
	if path == "" {
		return
	}
	b, jerr := json.Marshal(map[string]any{"message": err.Error(), "timestamp": time.Now().Unix()})
	if jerr == nil {
		_ = os.WriteFile(path, b, 0o644) // the terminal and the log have the error too
	}
}

// reportSuccess reports on the other hosts of a job that it succeeded, if each has its own
// terminal: mpirun and srun collect all output in one.
func (e *externalRank) reportSuccess() error {
	switch e.world.Source {
	case "openmpi", "mpich", "slurm", "horovod":
		return nil
	}
	if e.world.LocalRank != 0 || e.world.Rank == 0 || e.rank0.Path == "" {
		return nil
	}
	text := successText(e.rank0)
	e.log.Say(text)
	_, err := fmt.Fprintln(e.o.Log, text)
	return err
}

// outcome returns how a failed rank 0 ended.
func (e *externalRank) outcome(err error) outcome {
	o := outcome{status: "failed", code: ExitCode(err)}
	switch {
	case o.code == launch.ExitPreempted:
		o.status = "preempted"
		return o
	case errors.As(err, new(*train.Preempted)), errors.As(err, new(Interrupted)):
		o.status = "interrupted"
	case errors.As(err, new(*update.Diverged)):
		o.status = "diverged"
	}
	if canResume(o.code) {
		o.resume = resumable(e.fs, e.o.Config.Run)
	}
	if o.status == "interrupted" {
		return o
	}
	host, _ := os.Hostname()
	o.failed = &event.RankFailed{Host: host, PID: os.Getpid(), ExitCode: o.code, Message: err.Error(), Advice: o.resume}
	return o
}

// agreedDir is the run directory that all ranks on one file system share; zero if there is none.
type agreedDir = *Starting[event.RunDir]

func startAgreement(lc fx.Lifecycle, o Options, store joined, dir RunDir, cfg *config.Config, bus *event.Bus) agreedDir {
	switch {
	case o.place.launched:
		return ready(event.RunDir{Path: o.place.runDir})
	case o.external == nil:
		return ready(dir.RunDir)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Backend.InitTimeout)
	s := start(func() (event.RunDir, error) {
		client, err := store.Get(ctx)
		if err != nil {
			return dir.RunDir, nil // the code that needs the store reports the error
		}
		d, err := o.external.agree(ctx, client, bus)
		if err != nil {
			bus.Emit(&event.Warning{Source: "log", Message: fmt.Sprintf("rank %d writes no log or other files: %v", o.external.world.Rank, err)})
		}
		return d, nil
	})
	lc.Append(fx.Hook{OnStop: func(context.Context) error {
		select {
		case <-s.done:
		case <-time.After(failureGrace):
		}
		cancel()
		<-s.done
		return nil
	}})
	return s
}

// failureGrace is how long a rank that fails before it has connected to the others looks
// for the run directory, to write its log there.
const failureGrace = 2 * time.Second
