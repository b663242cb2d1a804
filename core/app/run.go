package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/app/sinks"
	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/base/pages"
	"github.com/trainctl/trainctl/core/base/tempdir"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/job/etcd"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/observer"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// Run is Launch for a program that ends with an exit code.
func Run(ctx context.Context, o Options) (int, error) {
	end, err := Launch(ctx, o)
	return end.ExitCode, err
}

// Ended is how a run ended.
type Ended struct {
	ExitCode int
	Dir      event.RunDir      // on this host; zero: the run had not begun
	Failed   *event.RankFailed // nil if no rank of this host has failed
	Err      error             // of that rank, if it is a thread
}

// Launch starts the ranks of this host, watches them until they end, and returns how they did, with
// the program's exit code. All processes that it started have ended when it returns.
func Launch(ctx context.Context, o Options) (Ended, error) {
	j, err := newJob(ctx, o)
	if err != nil {
		return Ended{ExitCode: launch.ExitFailed}, err
	}
	defer j.bus.Close()
	signals := o.Signals
	if signals == nil {
		var release func()
		signals, release = launch.CatchSignals()
		defer release()
	}
	if j.sockets, err = tempdir.New(); err != nil {
		return Ended{ExitCode: launch.ExitFailed}, fmt.Errorf("creating a directory for the plugins' sockets: %w; fix: set TMPDIR to another directory", err)
	}
	defer j.sockets.Close()
	j.stalls = newStalls(j.dir, j.bus)
	stop := j.stalls.start()
	lo := j.launchOptions()
	lo.Signals = signals
	if lo.Brief, err = j.brief(); err != nil {
		stop()
		return Ended{ExitCode: launch.ExitFailed}, err
	}
	res, err := launch.Run(ctx, lo)
	stop()
	err = errors.Join(err, j.report(res))
	endObservers(j.observers, j.fs, j.dir, j.Config.Metrics.JSONL && !j.sees0(), func(w *event.Warning) { j.bus.Emit(w) })
	end := Ended{ExitCode: res.ExitCode, Dir: j.dir, Failed: j.failed}
	if j.failed != nil {
		end.Err = j.threads.errorOf(j.failed.FailedRank)
	}
	return end, err
}

// job is one run as the launcher sees it.
type job struct {
	Options
	fs      checkpoint.FS
	dir     event.RunDir
	rank0   event.Invitation // on other nodes than 0: where rank 0's files are
	config  string           // file that ranks read; "": the run directory's
	bus     *event.Bus
	machine Machine
	nproc   int
	sockets *tempdir.Dir
	secret  secret.Secret // zero: a single host creates one
	etcd    *etcd.Config  // nil: node 0 hosts the rendezvous
	joined  bool          // another node began the job
	account *sinks.Account

	observers *observer.Sink // nil without any

	stalls      *stalls
	slowestSave atomic.Int64           // nanoseconds, until it was durable
	leader      atomic.Int64           // the number of the process that is rank 0
	events      atomic.Pointer[string] // events.jsonl, on the node that began the job; nil: none
	resume      string                 // directory or checkpoint to continue from; "": none

	settled sync.Once // see settle
	threads threadErrors
	failed  *event.RankFailed // set at the end
}

func newJob(ctx context.Context, o Options) (*job, error) {
	j := &job{Options: o, fs: checkpoint.OsFS(), account: &sinks.Account{Began: o.Started}}
	j.bus = event.NewBus(event.Launcher, append(slices.Clip(o.Sinks), j.account)...)
	warnExposed(j.bus, secret.Take())
	if j.Exe == "" {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		j.Exe = exe
	}
	var err error
	if err := rank.CheckAlone(os.LookupEnv, o.Config.Launch.Nnodes.Int()); err != nil {
		return nil, err
	}
	if j.secret, err = launchSecret(o.Config.Launch); err != nil {
		return nil, err
	}
	if j.etcd, err = rdzv(o.Config.Launch); err != nil {
		return nil, err
	}
	warnPassword(j.bus, j.etcd)
	if j.machine, err = Survey(ctx, o.Config.Run.Device); err != nil {
		return nil, err
	}
	j.nproc = o.Config.Launch.Nproc(len(j.machine.GPUs), cgroup.Cores())
	if _, err := o.Config.Divide(j.world()); err != nil {
		return nil, err
	}
	if err := errors.Join(j.checkThreads(), j.checkAttached()); err != nil {
		return nil, err
	}
	if j.resume, err = j.findResume(); err != nil {
		return nil, err
	}
	if err := j.findInit(); err != nil {
		return nil, err
	}
	j.observers = newObservers(o, j.bus, func() (event.RunDir, string) { return j.dir, j.sockets.Path })
	if !j.isFirst() {
		return j, nil // its directory is agreed on when the launchers meet
	}
	return j, j.createDir()
}

// isFirst reports whether this node begins the job. With etcd that is known when the launchers meet.
func (j *job) isFirst() bool { return j.Config.Launch.NodeRank == 0 && !j.Config.Launch.UsesEtcd() }

func (j *job) createDir() (err error) {
	if j.dir, err = event.CreateRunDir(j.fs, j.Config.Run.Dir, j.Config.Run.Name); err != nil {
		return err
	}
	if path := j.dir.Events(); j.Config.Metrics.JSONL {
		j.events.Store(&path)
	}
	return writeConfig(j.fs, j.dir, j.Config)
}

// begin creates the run directory on the node that begins a job with etcd.
func (j *job) begin() (brief []byte, logDir string, err error) {
	if err := j.createDir(); err != nil {
		return nil, "", err
	}
	j.stalls.in(j.dir)
	brief, err = j.brief()
	return brief, j.dir.Logs(), err
}

// rdzv says how to reach etcd; nil without it.
func rdzv(c launch.Config) (*etcd.Config, error) {
	if !c.UsesEtcd() {
		return nil, nil
	}
	to := c.Etcd()
	var err error
	to.Password, err = secret.RdzvPassword(c.RdzvPasswordFile)
	return &to, err
}

// warnPassword warns of a password for etcd that others on the network can read.
func warnPassword(bus *event.Bus, c *etcd.Config) {
	if c != nil && c.Exposed() {
		bus.Emit(&event.Warning{Source: "etcd", Message: fmt.Sprintf(
			"the password of user %q crosses the network as plain text, because connections to etcd do not use TLS; fix: write https:// before the addresses in launch.rdzv_endpoint, or set launch.rdzv_ca_file", c.User)})
	}
}

func writeConfig(fsys checkpoint.FS, dir event.RunDir, c *config.Config) error {
	if err := afero.WriteFile(fsys, dir.Config(), c.Resolved(), 0o644); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	if c.Lock == nil {
		return nil
	}
	text, err := c.Lock.Text()
	if err == nil {
		err = afero.WriteFile(fsys, config.LockPath(dir.Config()), text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	return nil
}

// brief is what node 0 sends to the other nodes about its run directory.
func (j *job) brief() ([]byte, error) {
	if j.dir.Path == "" {
		return nil, nil
	}
	inv, err := j.dir.Invite()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(inv)
	if err != nil {
		panic("app: " + err.Error())
	}
	return b, nil
}

// briefed uses node 0's run directory or, on another file system, creates one. In its
// own directory config.toml is this node's: ranks read it, and keys such as paths may
// differ between nodes.
func (j *job) briefed(brief []byte, node int) (logDir string, err error) {
	j.joined = true
	if err := json.Unmarshal(brief, &j.rank0); err != nil {
		return "", fmt.Errorf("node 0's run directory: %w", err)
	}
	var shared bool
	j.dir, shared, err = event.JoinRunDir(j.fs, j.Config.Run.Dir, j.Config.Run.Name, j.rank0)
	if err != nil {
		return "", err
	}
	j.stalls.in(j.dir)
	j.config = j.dir.Config()
	if shared {
		j.config = filepath.Join(j.dir.Path, fmt.Sprintf("config-node-%d.toml", node))
	}
	if err := afero.WriteFile(j.fs, j.config, j.Config.Resolved(), 0o644); err != nil {
		return "", fmt.Errorf("run directory: %w", err)
	}
	return j.dir.Logs(), nil
}

// launchSecret is the secret of a job over several hosts, which requires one.
func launchSecret(c launch.Config) (secret.Secret, error) {
	s, err := secret.Find(c.SecretFile)
	if n := c.Nnodes.Int(); err == nil && s.IsZero() && n > 1 {
		err = secret.Missing(fmt.Sprintf("the job runs on %d hosts", n))
	}
	return s, err
}

func (j *job) world() int { return j.nproc * max(1, j.Config.Launch.Nnodes.Int()) }

// findResume resolves --resume to a path. "auto" is the newest earlier run of the same
// name that has a checkpoint; without one the run starts from the beginning.
func (j *job) findResume() (string, error) {
	if j.Resume != "auto" {
		if j.Resume == "" {
			return "", nil
		}
		if j.isFirst() { // only rank 0 reads it
			if err := FindCheckpoint(j.fs, "--resume", j.Config.Run.Dir, &j.Resume); err != nil {
				return "", err
			}
		}
		return fixed(j.Resume)
	}
	found, err := newestRun(j.fs, j.Config.Run.Dir, j.Config.Run.Name)
	if found == "" {
		return "", err
	}
	return filepath.Abs(found)
}

// fixed is a path that still means the same when the new run has become the
// latest of its name, or a worker runs elsewhere.
func fixed(path string) (string, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return filepath.Abs(path)
}

// findInit looks for model.init before anything is started, as FindCheckpoint does.
func (j *job) findInit() error {
	init := j.Config.Model.Init
	if init == "" || !j.isFirst() {
		return nil
	}
	err := checkpoint.Find(j.fs, init)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist) && j.Config.Model.InitFallback == nn.FallbackRandom:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return usererr.List{{Key: "model.init", Detail: err.Error(), Help: "a safetensors file, or a checkpoint; relative paths start at the working directory"}}.Err()
	}
	return fmt.Errorf("model.init: %w", err)
}

// FindCheckpoint checks that there is a checkpoint at a path, or in a run under base,
// before anything is started, and stores its path there. A missing one is a mistake in
// the flag, with exit code 2; any other error is one of the checkpoint.
func FindCheckpoint(fsys checkpoint.FS, flag, base string, path *string) error {
	const help = "trainctl ckpt ls RUN lists what there is"
	at, err := event.FindCheckpoints(fsys, base, *path)
	if errors.As(err, new(*event.AmbiguousError)) {
		return usererr.List{{Key: flag, Detail: err.Error()}}.Err()
	} else if err == nil {
		*path = at
	}
	err = checkpoint.Find(fsys, *path)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return usererr.List{{Key: flag, Detail: err.Error(), Help: help}}.Err()
	case errors.As(err, new(*safetensors.PickleError)): // its message has the fix
		return fmt.Errorf("%s: %w", flag, err)
	}
	return fmt.Errorf("%s: %w (%s)", flag, err, help)
}

func (j *job) launchOptions() launch.Options {
	c := j.Config.Launch
	logs := ""
	if j.dir.Path != "" {
		logs = j.dir.Logs()
	}
	o := launch.Options{
		Briefed: j.briefed, Begin: j.begin, Etcd: j.etcd,
		Name: j.Config.Run.Name, RunID: j.runID(), Nproc: j.nproc, Threads: c.Threads(j.nproc, cgroup.Cores()),
		Nodes: c.Nnodes.Int(), Least: c.Nnodes.Least(), NodeRank: c.NodeRank, Endpoint: c.RdzvEndpoint, Secret: j.secret, Ports: c.Ports(),
		Elastic: c.IsElastic(), LostAfter: c.LostAfter.Std(), LateAfter: j.Config.Backend.Timeout, WaitForNodes: c.WaitForNodes.Std(), MaxRestarts: c.MaxRestarts, Grace: c.Grace.Std(), Saving: j.saving(), Requeue: c.Requeue, RendezvousTimeout: j.Config.Backend.InitTimeout,
		Command: j.command, FS: j.fs, LogDir: logs, Log: j.Log, OnEvent: j.onEvent, Remark: (&sinks.Remarks{}).Of,
		Finished: func(line []byte) bool { return event.KindOf(line) == doneKind }, Account: j.accountOf, Settings: j.settings(), Lost: j.stalls.lost, Warn: j.warn,
	}
	if c.AreThreads() {
		o.Thread = j.thread
	}
	return o
}

// warn reports a problem that this launcher has found: to the display, and in the run's events, which
// are written on the node that began the job.
func (j *job) warn(source, message string) {
	r := event.Record{Time: time.Now(), Rank: event.Launcher, Event: &event.Warning{Source: source, Message: message}}
	j.bus.Relay(r)
	path := j.events.Load()
	if path == nil {
		return
	}
	if file, err := event.OpenJSONLines(j.fs, *path, nil); err == nil { // else it was displayed
		file.Emit(r)
		file.Close()
	}
}

// settings are what launchers of several hosts compare when they meet.
func (j *job) settings() []string {
	if j.Config.Launch.Nnodes.Int() <= 1 {
		return nil
	}
	return append(j.Config.Common(), fmt.Sprint("launch.max_restarts = ", j.Config.Launch.MaxRestarts))
}

// saving returns twice the measured time of a save, if launch.grace is "auto".
func (j *job) saving() func() time.Duration {
	if !j.Config.Launch.Grace.IsAuto() {
		return nil
	}
	return func() time.Duration { return 2 * time.Duration(j.slowestSave.Load()) }
}

// runID identifies the job. It is derived from the configuration, the only thing that
// the launchers of several hosts share.
func (j *job) runID() string {
	if j.Config.Launch.Nnodes.Int() > 1 {
		return j.Config.Run.Name
	}
	return ""
}

// place is what every rank gets.
func (j *job) place() place {
	return place{launched: true, runDir: j.dir.Path, started: j.Started, continues: runOf(j.fs, j.resume), sockets: j.sockets.Path}
}

// continueFrom is what a rank continues from, "" if it starts anew. After a restart that is the
// run's own checkpoints, if it has any.
func (j *job) continueFrom(w rank.World) string {
	if w.RestartCount > 0 && checkpoint.AnyGood(j.fs, j.dir.Checkpoints()) {
		return j.dir.Checkpoints()
	}
	return j.resume
}

// command is how to start a rank as a process.
func (j *job) command(w rank.World) launch.Command {
	if j.Rank != nil {
		args, env := j.Rank(cmp.Or(j.config, j.dir.Config()), j.continueFrom(w))
		return launch.Command{Path: j.Exe, Args: args, Env: append(j.place().env(), env...)}
	}
	args := []string{"worker", cmp.Or(j.config, j.dir.Config())}
	if len(j.Config.Faults.At) > 0 {
		args = append(args, "--allow-faults")
	}
	if from := j.continueFrom(w); from != "" {
		args = append(args, "--resume", from)
	}
	return launch.Command{Path: j.Exe, Args: args, Env: j.place().env()}
}

var (
	stepKind = (*event.StepDone)(nil).Kind()
	doneKind = (*event.RankDone)(nil).Kind()

	pluginFailedKind = (*event.PluginFailed)(nil).Kind()
	refusedKind      = (*event.Refused)(nil).Kind()
)

// onEvent forwards the workers' events to the display: all of rank 0, whichever process that
// is, and from the other ranks those that rank 0 does not report.
func (j *job) onEvent(from int, line []byte) {
	leader := int(j.leader.Load())
	if from != leader && event.KindOf(line) == stepKind {
		j.stalls.progress(from, nil)
		return // most events, skipped without decoding
	}
	r, err := event.Decode(line)
	if err != nil {
		return // of a newer version, or cut off by a crash
	}
	j.stalls.progress(from, r.Event)
	j.settle(r.Event)
	if e, changed := r.Event.(*event.Elastic); changed && len(e.Places) > 0 {
		leader = e.Places[0]
		j.leader.Store(int64(leader))
	}
	switch {
	case from == leader:
		r.Rank = 0
	case !ofItsRank(r.Event):
		return
	}
	if e, ok := r.Event.(*event.CheckpointSaved); ok {
		took := int64(time.Duration(e.TookMS * float64(time.Millisecond)))
		j.slowestSave.Store(max(j.slowestSave.Load(), took)) // events do not overlap
	}
	j.bus.Relay(r)
}

// settle gives back what starting took, once a rank has begun to get ready, if the process is the launcher's own.
func (j *job) settle(e event.Event) {
	if _, entered := e.(*event.PhaseChanged); entered && j.Rank == nil && !j.Config.Launch.AreThreads() {
		j.settled.Do(func() { go pages.GiveBackProgram() })
	}
}

// accountOf reads what a rank reports about why it ends.
func (j *job) accountOf(line []byte) (a launch.Account) {
	if kind := event.KindOf(line); kind != pluginFailedKind && kind != refusedKind {
		return a
	}
	r, err := event.Decode(line)
	if err != nil {
		return a
	}
	switch e := r.Event.(type) {
	case *event.PluginFailed:
		a.Plugin = &launch.PluginFault{Kind: e.Type, Name: e.Name, PID: e.PID, Operation: e.Operation, Hung: e.Hung, Cause: e.Cause, Restarts: j.restarts(sdk.Kind(e.Type), e.Name), Attached: host.New(host.Options{Builtins: j.Builtins}).Attached(sdk.Kind(e.Type), e.Name) != ""}
	case *event.Refused:
		a.Refusal = &launch.Refusal{Message: e.Message, Problems: problemsOf(e)}
	}
	return a
}

// restarts is how often a plugin may be replaced.
func (j *job) restarts(k sdk.Kind, plugin string) int {
	switch k {
	case sdk.KindDataset:
		return j.Config.Dataset.Restarts
	case sdk.KindPrecision:
		return j.Config.Precision.Restarts
	case sdk.KindLayer:
		if i, err := j.Config.LayerPlugin(plugin); err == nil {
			return j.Config.LayerPlugins[i].Restarts
		}
		return 0
	}
	return j.Config.Backend.Restarts
}

// report ends the run for people and for programs: the failure block, the
// last events, and a summary that says what happened if no rank wrote one.
func (j *job) report(res launch.Result) error {
	if res.ExitCode == launch.ExitOK {
		return j.tellOther()
	}
	o := j.outcome(res)
	j.failed = o.failed
	sum := j.account.SummaryOf(o.status, res.Restarts)
	if !j.writesEnd(res.Hosts) {
		tellEnd(o, sum, j.observers)
		return o.show(j.Log)
	}
	sum.Name, sum.WorldSize, sum.Device, sum.Backend, sum.Precision = j.Config.Run.Name, j.world(), j.machine.Device, Backend(j.Config), j.Config.Precision.Plugin
	sum.Dataset.Plugin = j.Config.Dataset.Plugin
	return errors.Join(writeEnd(j.fs, j.dir, j.Config.Metrics.JSONL, sum, o, j.observers), o.show(j.Log))
}

// writesEnd reports whether this launcher writes how the run ended: there is a directory, and no other launcher
// writes there. With etcd that is the host's: the node that began the job may have been lost, and the others go on, or have
// succeeded, in its directory.
func (j *job) writesEnd(hosts bool) bool {
	switch {
	case j.dir.Path == "":
		return false
	case !j.Config.Launch.UsesEtcd():
		return !j.sees0()
	}
	return hosts || j.joined && !j.sees0()
}

// writeEnd writes the last events and the summary of a run that did not finish, and passes the
// events to its observers.
func writeEnd(fsys checkpoint.FS, dir event.RunDir, jsonl bool, sum event.Summary, o outcome, watching *observer.Sink) error {
	sinks := []event.Sink{watching}
	if jsonl {
		file, err := event.OpenJSONLines(fsys, dir.Events(), nil)
		if err == nil { // else the terminal shows the failure block, and the error is most likely the disk's
			sinks = append(sinks, file)
		}
	}
	tellEnd(o, sum, sinks...)
	return event.WriteSummary(fsys, dir.Summary(), sum)
}

// sees0 reports whether this is a node other than 0 that uses node 0's run directory.
func (j *job) sees0() bool {
	return j.joined && j.config != "" && j.config != j.dir.Config()
}

// tellOther reports on nodes other than 0, which do not run rank 0, how the job ended.
func (j *job) tellOther() error {
	if !j.joined {
		return nil
	}
	_, err := fmt.Fprintln(j.Log, successText(j.rank0))
	return err
}

func successText(rank0 event.Invitation) string {
	return fmt.Sprintf("ok: the job succeeded; rank 0's results are in %s on %s", rank0.Path, rank0.Host)
}

// tellEnd sends the events of a failure to sinks, and closes them. The terminal shows the failure
// block instead.
func tellEnd(o outcome, sum event.Summary, sinks ...event.Sink) {
	bus := event.NewBus(event.Launcher, sinks...)
	defer bus.Close()
	if o.failure != nil {
		tellPlugin(bus, o.failure.Root)
	}
	if o.failed != nil {
		bus.Emit(o.failed)
	}
	bus.Emit(&event.RunDone{
		Status: o.status, Step: sum.Steps, Loss: float64(sum.Train.Loss), Accuracy: -1, ExitCode: o.code, TotalS: float64(sum.Time.TotalS), Message: o.message(),
	})
}

// tellPlugin emits which plugin a rank ended because of; rank 0 has done so itself.
func tellPlugin(bus *event.Bus, c launch.Cause) {
	if p := c.Plugin; p != nil && c.Rank != 0 {
		bus.Relay(event.Record{Time: c.Time, Rank: c.Rank, Event: &event.PluginFailed{
			Type: p.Kind, Name: p.Name, PID: p.PID, Operation: p.Operation, Hung: p.Hung, Cause: p.Cause,
		}})
	}
}
