package elastic

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/e2e/rig"
)

// life is a part of a run, from one kill to the next.
type life struct {
	world, until int // until is the step after which a rank is killed; 0: it goes to the end
	step         int // samples of a step over all ranks
}

// elasticRun trains through lives of different world sizes. It returns the mean losses of
// all steps, the last life, and how often each epoch's samples were trained on.
func elasticRun(t *testing.T, p *rig.Place, lives []life, set ...string) (losses []float64, last rig.Run, seen map[int][]int) {
	t.Helper()
	addRecording(t, p)
	begun := checkpoint.Manifest{}
	seen = map[int][]int{}
	for i, l := range lives {
		record := filepath.Join(records(p), fmt.Sprint("record", i))
		args := append([]string{"run", p.Config, "--progress", "none", "--resume", "auto"}, rig.Set(append(append(set,
			fmt.Sprint("launch.nproc_per_node=", l.world)), recording(p, fmt.Sprint("record", i))...)...)...)
		if l.until == 0 {
			p.Trainctl(t, args...).Expect(t, 0)
		} else {
			serve := (l.until - begun.Step) * data.Share(l.step, l.world, 0)
			killedAfter(t, p, i+1, l.until, append(args, rig.Set(fmt.Sprint("dataset.options.serve=", serve))...)...)
		}
		last = rig.Run{Dir: p.RunDir(i + 1)}
		end := newest(t, last)
		for _, s := range rig.EventsOf[*event.StepDone](t, last.Dir) {
			losses = append(losses, s.LossMean)
		}
		if len(losses) != end.Step {
			t.Fatalf("%d steps, and a checkpoint of step %d", len(losses), end.Step)
		}
		count(t, seen, record, l, begun, end)
		begun = end
	}
	return losses, last, seen
}

// killedAfter kills a rank of the n-th run when the checkpoint of a step is there.
func killedAfter(t *testing.T, p *rig.Place, n, step int, args ...string) {
	t.Helper()
	proc := p.Start(t, args...)
	rig.Eventually(t, fmt.Sprintf("the checkpoint of step %d", step), func() bool {
		_, err := os.Stat(filepath.Join(p.Checkpoints(n), fmt.Sprint("step-", step), checkpoint.ManifestFile))
		return err == nil
	})
	rig.Signal(t, p.Worker(t, 0).PID, syscall.SIGKILL)
	proc.Wait(t).Expect(t, 5)
}

// newest is the manifest of the newest checkpoint, from which the next life continues.
func newest(t *testing.T, r rig.Run) (m checkpoint.Manifest) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.Checkpoint(rig.NewestStep(filepath.Join(r.Dir, "checkpoints"))), checkpoint.ManifestFile))
	rig.Must(t, err)
	rig.Must(t, json.Unmarshal(b, &m))
	return m
}

// addRecording adds the data set "recording" to a place, with a folder for its records.
func addRecording(t *testing.T, p *rig.Place) {
	t.Helper()
	p.AddProgram(t, "e2e/elastic/testdata/recording")
	rig.Must(t, os.Mkdir(records(p), 0o755))
}

func records(p *rig.Place) string { return filepath.Join(p.Dir, "records") }

// recording sets the data set and the name of its records. Its sandbox lets it write to a folder that an
// option names.
func recording(p *rig.Place, name string) []string {
	return []string{"dataset.plugin=./recording", fmt.Sprintf("dataset.options.folder=%q", records(p)), fmt.Sprintf("dataset.options.record=%q", name)}
}

// count adds what a life has trained on between two checkpoints: of what its ranks were
// served, in order, the shares of these steps. What came after the last one was read ahead,
// or trained on and lost.
func count(t *testing.T, seen map[int][]int, record string, l life, begun, end checkpoint.Manifest) {
	t.Helper()
	var served []map[int][]int // by rank and epoch
	for r := range l.world {
		served = append(served, readRecord(t, fmt.Sprintf("%s-%d", record, r)))
	}
	epoch, done := begun.Sampler.Epoch, begun.Sampler.Done()
	for range end.Step - begun.Step {
		n := min(l.step, rig.ElasticSamples-done)
		if seen[epoch] == nil {
			seen[epoch] = make([]int, rig.ElasticSamples)
		}
		for r := range served {
			share := data.Share(n, l.world, r)
			for _, i := range served[r][epoch][:share] {
				seen[epoch][i]++
			}
			served[r][epoch] = served[r][epoch][share:]
		}
		if done += n; done == rig.ElasticSamples {
			epoch, done = epoch+1, 0
		}
	}
	if at := end.Sampler; at.Epoch != epoch || at.Done() != done {
		t.Errorf("the checkpoint of step %d is in epoch %d after %d samples, want epoch %d after %d", end.Step, at.Epoch, at.Done(), epoch, done)
	}
}

// readRecord reads the samples that a rank was served, by epoch.
func readRecord(t *testing.T, path string) map[int][]int {
	t.Helper()
	b, err := os.ReadFile(path)
	rig.Must(t, err)
	served := map[int][]int{}
	for line := range strings.Lines(string(b)) {
		var epoch, i int
		if _, err := fmt.Sscan(line, &epoch, &i); err != nil {
			t.Fatalf("%s: %q: %v", path, line, err)
		}
		served[epoch] = append(served[epoch], i)
	}
	return served
}

func eachOnce(t *testing.T, seen map[int][]int, epochs int) {
	t.Helper()
	for e := range epochs {
		if len(seen[e]) != rig.ElasticSamples {
			t.Errorf("nothing was recorded of epoch %d", e)
		}
		for i, k := range seen[e] {
			if k != 1 {
				t.Errorf("epoch %d: sample %d was trained on %d times", e, i, k)
			}
		}
	}
}

// A run whose number of ranks changes from kill to kill trains on every sample of every
// epoch once, and with a fixed global batch has the losses of a run that nothing happened to.
func TestEverySampleCountsOnce(t *testing.T) {
	t.Parallel()
	tables := rig.ElasticTables + "[train]\nepochs = 3\nglobal_batch = 16\nper_rank_batch = 6\n"
	want, whole, once := elasticRun(t, rig.PlaceWith(t, tables), []life{{world: 1, step: 16}})
	eachOnce(t, once, 3)
	got, changed, seen := elasticRun(t, rig.PlaceWith(t, tables), []life{
		{world: 1, step: 16, until: 4}, {world: 3, step: 16, until: 9}, {world: 2, step: 16, until: 16}, {world: 4, step: 16},
	})
	eachOnce(t, seen, 3)
	if len(want) != 21 || len(got) != 21 {
		t.Fatalf("%d and %d steps, want 3 × 7", len(want), len(got))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-5*want[i]) {
			t.Errorf("step %d: loss %v, undisturbed %v", i+1, got[i], want[i])
		}
	}
	if d := rig.Furthest(t, changed.Weights(t, 21), whole.Weights(t, 21)); !(d <= 1e-5) {
		t.Errorf("parameters are off by %g", d)
	}
}

// With a fixed batch per rank steps change their size, no sample changes its number, and
// the learning rate follows the rule.
func TestEverySampleCountsOnceInBatchesPerRank(t *testing.T) {
	t.Parallel()
	tables := rig.ElasticTables + "[train]\nepochs = 3\nper_rank_batch = 4\n[lr_scheduler]\nname = \"step\"\nstep_size = 2\nbatch_scaling = \"linear\"\n"
	p := rig.PlaceWith(t, tables)
	_, _, seen := elasticRun(t, p, []life{
		{world: 1, step: 4, until: 5}, {world: 3, step: 12, until: 11}, {world: 2, step: 8, until: 19}, {world: 4, step: 16},
	})
	eachOnce(t, seen, 3)
	for i, world := range []int{1, 3, 2, 4} {
		for _, s := range rig.EventsOf[*event.StepDone](t, p.RunDir(i+1)) {
			want := 0.05 * float64(world)
			if s.Epoch == 2 {
				want /= 10
			}
			if math.Abs(s.LR-want) > 1e-9 {
				t.Errorf("step %d in epoch %d on %d ranks: learning rate %v, want %v", s.Step, s.Epoch, world, s.LR, want)
			}
		}
	}
}

// When a rank dies, the others go on from the step that they were in, in the same processes
// and without a checkpoint, with the samples and losses of a run that nothing happened to.
func TestRanksGoOnWithoutOneThatDied(t *testing.T) {
	t.Parallel()
	tables := rig.ElasticTables + "[train]\nepochs = 3\nglobal_batch = 16\n"
	whole := rig.PlaceWith(t, tables).Run(t, rig.Set("launch.nproc_per_node=1", `checkpoint.every="100 epochs"`)...)
	p := rig.PlaceWith(t, tables)
	addRecording(t, p)
	proc := p.Start(t, append([]string{"run", p.Config}, rig.Set(append(recording(p, "record"), "launch.nproc_per_node=3", "launch.elastic=true", `checkpoint.every="100 epochs"`,
		"dataset.options.serve=41", "dataset.options.serve_rank=2")...)...)...) // in the tenth step it gets nothing
	p.WaitForSteps(t, proc, 1, 9)
	rig.Signal(t, p.Worker(t, 2).PID, syscall.SIGKILL)
	res := proc.Wait(t).Expect(t, 0)
	res.Prints(t, "rank 2 was ended by", "2 ranks go on", "elastic")
	r := rig.ReadRun(t, p.RunDir(1))
	rig.SameSteps(t, r, whole, 1e-5)
	if a, b := r.Summary.Eval, whole.Summary.Eval; *a.Accuracy != *b.Accuracy || r.Summary.WorldSize != 2 || r.Summary.Restarts != 0 || len(r.Summary.Comm.Elastic) != 1 {
		t.Errorf("accuracy %v, undisturbed %v; %d ranks, %d restarts, %+v", *a.Accuracy, *b.Accuracy, r.Summary.WorldSize, r.Summary.Restarts, r.Summary.Comm.Elastic)
	}
	if n := len(rig.EventsOf[*event.RankStarted](t, r.Dir)); n != 1 { // of rank 0, whose events these are
		t.Errorf("rank 0 was started %d times", n)
	}
	r.Params(t)
}

// Ranks die, and one is frozen, at random moments: in passes, collectives, saves
// and evaluations. The job ends by itself, with the steps of an undisturbed one.
func TestRanksLeaveAtAnyMoment(t *testing.T) {
	t.Parallel()
	tables := strings.Replace(rig.ElasticTables, "keep = 0", "keep = 2", 1) + "[train]\nepochs = 25\nglobal_batch = 16\naccumulate_steps = 2\nlog_freq = 1000\n"
	whole := rig.PlaceWith(t, tables).Run(t, rig.Set("launch.nproc_per_node=1", `checkpoint.every="100 epochs"`)...)
	p := rig.PlaceWith(t, tables)
	proc := p.Start(t, append([]string{"run", p.Config}, rig.Set("launch.nproc_per_node=4", "launch.elastic=true", `launch.lost_after="1s"`, `backend.timeout="3s"`)...)...)
	step, seed := 0, rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for _, victim := range random.Perm(3) {
		signal := syscall.SIGKILL
		if random.IntN(3) == 0 {
			signal = syscall.SIGSTOP
		}
		step += 1 + random.IntN(50)
		p.WaitForSteps(t, proc, 1, step)
		rig.Signal(t, p.Worker(t, victim+1).PID, signal)
	}
	proc.Wait(t).Expect(t, 0)
	r := rig.ReadRun(t, p.RunDir(1))
	rig.SameSteps(t, r, whole, 1e-3)
	r.Params(t)
	if changes := r.Summary.Comm.Elastic; len(changes) == 0 || changes[len(changes)-1].Ranks != 1 || r.Summary.WorldSize != 1 {
		t.Errorf("%d ranks at the end, %+v", r.Summary.WorldSize, changes)
	} else {
		t.Logf("%+v", changes)
	}
}

// Ranks that go on with their own batches take smaller steps, with the learning rate of the
// rule, and every epoch still has every sample once.
func TestRanksGoOnInBatchesPerRank(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, rig.ElasticTables+"[train]\nepochs = 3\nper_rank_batch = 4\n[lr_scheduler]\nname = \"step\"\nstep_size = 2\nbatch_scaling = \"linear\"\n")
	addRecording(t, p)
	proc := p.Start(t, append([]string{"run", p.Config}, rig.Set(append(recording(p, "record"), "launch.nproc_per_node=3", "launch.elastic=true",
		"dataset.options.serve=20", "dataset.options.serve_rank=1")...)...)...) // in the sixth step it gets nothing
	p.WaitForSteps(t, proc, 1, 5)
	rig.Signal(t, p.Worker(t, 1).PID, syscall.SIGKILL)
	proc.Wait(t).Expect(t, 0)
	samples := map[int]int{}
	for i, s := range rig.ReadRun(t, p.RunDir(1)).Steps {
		want := 0.05
		if i >= 5 {
			want *= 2. / 3
		}
		if s.Epoch == 2 {
			want /= 10
		}
		if math.Abs(s.LR-want) > 1e-9 {
			t.Errorf("step %d in epoch %d: learning rate %v, want %v", s.Step, s.Epoch, s.LR, want)
		}
		samples[s.Epoch] += s.Samples
	}
	for e := range 3 {
		if samples[e] != rig.ElasticSamples {
			t.Errorf("epoch %d has %d samples", e, samples[e])
		}
	}
}

// elasticNorms train a network with a batch norm.
var elasticNorms = strings.Replace(rig.ElasticTables, "name = \"mlp\"\nhidden = [16]", `layers = [
  { type = "conv2d", out_channels = 4, kernel_size = 3 }, { type = "batchnorm2d" }, { type = "relu" },
  { type = "flatten" }, { type = "linear", out_features = 4 },
]`, 1) + "[train]\neval_every = 0\n"

// Synchronised batch norms normalise with the batches of the ranks that are left: losses, weights and running
// statistics are those of one rank whose batches have as many samples.
func TestSynchronisedBatchNormsGoOn(t *testing.T) {
	t.Parallel()
	tables := elasticNorms
	whole := rig.PlaceWith(t, tables)
	steps := whole.Run(t, rig.Set("run.dtype=f64", "launch.nproc_per_node=1", "train.per_rank_batch=12", "train.max_steps=5")...).Steps
	want := whole.Run(t, append(rig.Set("run.dtype=f64", "launch.nproc_per_node=1", "train.per_rank_batch=8", "train.max_steps=10"), "--resume", "auto")...)
	weights := want.Weights(t, 10)
	want.Steps = append(steps, want.Steps...)

	p := rig.PlaceWith(t, tables)
	addRecording(t, p)
	proc := p.Start(t, append([]string{"run", p.Config}, rig.Set(append(recording(p, "record"), "run.dtype=f64", "launch.nproc_per_node=3", "launch.elastic=true",
		"ddp.sync_batchnorm=true", "train.per_rank_batch=4", "train.max_steps=10", "dataset.options.serve=20", "dataset.options.serve_rank=1")...)...)...)
	p.WaitForSteps(t, proc, 1, 5) // in the sixth one, the others wait in the batch norm
	rig.Signal(t, p.Worker(t, 1).PID, syscall.SIGKILL)
	proc.Wait(t).Expect(t, 0)
	got := rig.ReadRun(t, p.RunDir(1))
	rig.SameSteps(t, got, want, 1e-9)
	if d := rig.Furthest(t, got.Weights(t, 10), weights); !(d <= 1e-9) {
		t.Errorf("weights and running statistics are off by %g", d)
	}
}

// A rank that joins has the others' running statistics, and its batches are normalised with theirs: losses, weights and
// statistics are those of one rank whose batches have as many samples as those of all ranks.
func TestRanksComeBackToSynchronisedBatchNorms(t *testing.T) {
	t.Parallel()
	const each = 4 // samples of a rank, all of which count alike: no step may have fewer on one of them
	tables := strings.NewReplacer("lr = 0.05", "lr = 0.0005", fmt.Sprint("train_samples = ", rig.ElasticSamples), "train_samples = 96").Replace(elasticNorms)
	common := []string{"run.dtype=f64", "train.epochs=100000", "train.log_freq=1000", `checkpoint.every="100 epochs"`}
	p, q := rig.PlaceWith(t, tables), rig.PlaceWith(t, tables)
	proc := p.Start(t, append([]string{"run", p.Config}, rig.Set(append([]string{"launch.nproc_per_node=2", "launch.elastic=true", "launch.max_restarts=1",
		"ddp.sync_batchnorm=true", fmt.Sprint("train.per_rank_batch=", each), `backend.timeout="1m"`}, common...)...)...)...)
	steps, changes := replaceRanks(t, p, proc, 1)
	if len(changes) != 2 || changes[0].Ranks != 1 || changes[1].Ranks != 2 {
		t.Fatalf("%+v", changes)
	}
	alone := steps[changes[0].Step-1:] // from the first step that one rank took, unless it was completed for two
	if alone[0].Samples > each {
		alone = alone[1:]
	}
	back := changes[1].Step
	if steps[back-1].Samples <= each {
		back++
	}
	whole := rig.Run{}
	for _, l := range []life{{world: 2, until: alone[0].Step - 1}, {world: 1, until: back - 1}, {world: 2, until: len(steps)}} {
		r := q.Run(t, append(rig.Set(append([]string{"launch.nproc_per_node=1", fmt.Sprint("train.per_rank_batch=", each*l.world), fmt.Sprint("train.max_steps=", l.until)}, common...)...), "--resume", "auto")...)
		whole.Dir, whole.Steps = r.Dir, append(whole.Steps, r.Steps...)
	}
	got := rig.Run{Dir: p.RunDir(1), Steps: steps}
	rig.SameSteps(t, got, whole, 1e-6)
	if d := rig.Furthest(t, got.Weights(t, len(steps)), whole.Weights(t, len(steps))); !(d <= 1e-6) {
		t.Errorf("weights and running statistics are off by %g", d)
	}
	t.Logf("%d steps, alone from %d to %d", len(steps), alone[0].Step, back-1)
}

// replaceRanks kills ranks of a job, each when the one before was replaced, and then ends the job. It
// returns the steps and the changes of the ranks.
func replaceRanks(t *testing.T, p *rig.Place, proc *rig.Proc, places ...int) (steps []event.StepDone, changes []*event.Elastic) {
	t.Helper()
	p.WaitForSteps(t, proc, 1, 1)
	for i, place := range places {
		p.WaitForSteps(t, proc, 1, 3+len(rig.EventsOf[rig.StepEvent](t, p.RunDir(1))))
		rig.Signal(t, p.Worker(t, place).PID, syscall.SIGKILL)
		rig.Eventually(t, "ranks to have joined", func() bool {
			joined := 0
			for _, e := range rig.EventsOf[*event.Elastic](t, p.RunDir(1)) {
				joined += len(e.Joined)
			}
			return joined == i+1
		})
	}
	p.WaitForSteps(t, proc, 1, 3+len(rig.EventsOf[rig.StepEvent](t, p.RunDir(1))))
	rig.Signal(t, proc.Cmd.Process.Pid, syscall.SIGTERM)
	proc.Wait(t).Expect(t, 75)
	for _, s := range rig.EventsOf[rig.StepEvent](t, p.RunDir(1)) { // those of the last 10 ms before rank 0 was killed may be missing
		steps = append(steps, *s)
	}
	return steps, rig.EventsOf[*event.Elastic](t, p.RunDir(1))
}

// at are the steps of a run with the numbers of others.
func stepsAt(r rig.Run, steps []event.StepDone) (same rig.Run) {
	same = rig.Run{Dir: r.Dir}
	for _, s := range steps {
		same.Steps = append(same.Steps, r.Steps[s.Step-1])
	}
	return same
}

// Rank 0 may die too: the next rank writes what it wrote. A rank that died is started again and
// receives the run's state from the others. The steps are those of an undisturbed run, with its
// samples.
func TestRanksComeBack(t *testing.T) {
	t.Parallel()
	tables := strings.NewReplacer("keep = 0", "keep = 2", "lr = 0.05", "lr = 0.0005").Replace(rig.ElasticTables) + "[train]\nglobal_batch = 16\naccumulate_steps = 2\nlog_freq = 1000\n"
	p, q := rig.PlaceWith(t, tables), rig.PlaceWith(t, tables)
	recorded := func(p *rig.Place) []string {
		addRecording(t, p)
		return recording(p, "record")
	}
	proc := p.Start(t, append([]string{"run", p.Config}, rig.Set(append(recorded(p), "train.epochs=100000", "launch.nproc_per_node=3", "launch.elastic=true", "launch.max_restarts=3", `backend.timeout="1m"`, `checkpoint.every="100 steps"`)...)...)...)
	steps, changes := replaceRanks(t, p, proc, 1, 0, 2)
	if c := changes[len(changes)-1]; len(changes) < 6 || !slices.Equal(c.Places, []int{1, 0, 2}) {
		t.Errorf("%d changes, the last is %+v", len(changes), c)
	}
	for _, c := range changes {
		t.Logf("%+v", *c)
	}
	last := steps[len(steps)-1].Step
	whole := q.Run(t, rig.Set(append(recorded(q), "launch.nproc_per_node=1", "train.epochs=100000", fmt.Sprint("train.max_steps=", last))...)...)
	rig.SameSteps(t, rig.Run{Steps: steps}, stepsAt(whole, steps), 1e-3)
	if rig.NewestStep(p.Checkpoints(1)) != last || len(steps) < last-100 {
		t.Errorf("the newest checkpoint is of step %d of %d", rig.NewestStep(p.Checkpoints(1)), last)
	}
	servedInOrder(t, steps, changes, filepath.Join(records(p), "record"), readRecord(t, filepath.Join(records(q), "record-0")))
}

// servedInOrder asserts that the samples of every step were those that are next in the order of an
// undisturbed run, and that each was served to the rank that had to train on it. The job began with
// three ranks.
func servedInOrder(t *testing.T, steps []event.StepDone, changes []*event.Elastic, record string, order map[int][]int) {
	t.Helper()
	served := servedTo(t, record)
	const perEpoch = (rig.ElasticSamples + 15) / 16
	for _, s := range steps {
		first := (s.Step - 1) % perEpoch * 16
		next := min(first+16, rig.ElasticSamples)
		if s.Samples != next-first || s.Epoch != (s.Step-1)/perEpoch {
			t.Fatalf("step %d in epoch %d has %d samples, want %d", s.Step, s.Epoch, s.Samples, next-first)
		}
		groups := groupsIn(s.Step, []int{0, 1, 2}, changes)
		if !slices.ContainsFunc(groups, func(places []int) bool {
			for i, sample := range order[s.Epoch][first:next] {
				if !served[places[i%len(places)]][[2]int{s.Epoch, sample}] {
					return false
				}
			}
			return true
		}) {
			t.Fatalf("step %d of epoch %d: samples %v were not served to their ranks, whose places are one of %v", s.Step, s.Epoch, order[s.Epoch][first:next], groups)
		}
	}
	t.Logf("%d steps", len(steps))
}

// servedTo is which samples of which epochs the processes at each place were served.
func servedTo(t *testing.T, record string) map[int]map[[2]int]bool {
	t.Helper()
	paths, err := filepath.Glob(record + "-*")
	rig.Must(t, err)
	served := map[int]map[[2]int]bool{}
	for _, path := range paths {
		text, _, _ := strings.Cut(strings.TrimPrefix(path, record+"-"), "-")
		place, err := strconv.Atoi(text)
		rig.Must(t, err)
		if served[place] == nil {
			served[place] = map[[2]int]bool{}
		}
		for epoch, samples := range readRecord(t, path) {
			for _, i := range samples {
				served[place][[2]int{epoch, i}] = true
			}
		}
	}
	return served
}

// groupsIn are the ranks that may have taken a step, each group by its places: in a step in which they
// changed, those before or after the change.
func groupsIn(step int, places []int, changes []*event.Elastic) (groups [][]int) {
	for _, c := range changes {
		if c.Step > step {
			break
		}
		if c.Step == step {
			groups = append(groups, places)
		}
		places = c.Places
	}
	return append(groups, places)
}

// A rank that joins gets the loss scale and the moving averages of the weights: as rank 0 it writes
// those of an undisturbed run.
func TestRankThatJoinsHasScaleAndAverages(t *testing.T) {
	t.Parallel()
	tables := strings.NewReplacer("keep = 0", "keep = 2", "lr = 0.05", "lr = 0.0005", "momentum = 0.9", "momentum = 0.9\nema_decay = 0.9999").Replace(rig.ElasticTables) +
		"[train]\nglobal_batch = 16\nlog_freq = 1000\neval_every = 0\n[precision]\nplugin = \"amp\"\n[precision.options]\nlevel = \"O0\"\nloss_scale = \"dynamic\"\ninit_scale = 1.0\ngrowth_interval = 900\n"
	p := rig.PlaceWith(t, tables)
	proc := p.Start(t, append([]string{"run", p.Config}, rig.Set("train.epochs=100000", "launch.nproc_per_node=2", "launch.elastic=true", "launch.max_restarts=2", `backend.timeout="1m"`, `checkpoint.every="100 epochs"`)...)...)
	steps, changes := replaceRanks(t, p, proc, 1, 0)
	if c := changes[len(changes)-1]; !slices.Equal(c.Places, []int{1, 0}) {
		t.Fatalf("the last change is %+v", c)
	}
	last := steps[len(steps)-1].Step
	whole := rig.PlaceWith(t, tables).Run(t, rig.Set("launch.nproc_per_node=1", "train.epochs=100000", `checkpoint.every="100 epochs"`, fmt.Sprint("train.max_steps=", last))...)
	rig.SameSteps(t, rig.Run{Steps: steps}, stepsAt(whole, steps), 1e-3)
	for i, s := range stepsAt(whole, steps).Steps {
		if steps[i].Scale != s.Scale {
			t.Fatalf("step %d: scale %v, undisturbed %v", s.Step, steps[i].Scale, s.Scale)
		}
	}
	got, weights, want := rig.Run{Dir: p.RunDir(1)}.Average(t, last), whole.Weights(t, last), whole.Average(t, last)
	if moved, off := rig.Furthest(t, weights, want), rig.Furthest(t, got, want); !(off <= 1e-3*moved) {
		t.Errorf("averages are off by %g, and %g from the weights", off, moved)
	}
}

// One that is late because it computes, or saves, is waited for: it is not silent.
func TestLateRankIsWaitedFor(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, rig.ElasticTables+"[train]\nepochs = 25\nglobal_batch = 16\nlog_freq = 1000\n[faults]\nat = [\"step 20: delay rank 1 by 4s\", \"step 20: kill rank 2\"]\n")
	p.Trainctl(t, append([]string{"run", p.Config, "--allow-faults"}, rig.Set("launch.nproc_per_node=3", "launch.elastic=true", `launch.lost_after="1s"`)...)...).
		Expect(t, 0).Prints(t, "rank 2 was ended by SIGKILL; 2 ranks go on")
	changes := rig.ReadRun(t, p.RunDir(1)).Summary.Comm.Elastic
	if len(changes) != 1 || !slices.Equal(changes[0].Left, []int{2}) {
		t.Errorf("%+v", changes)
	}
}

// A rank that is stopped is out soon after launch.lost_after, however long a collective may take.
func TestStoppedRankIsOut(t *testing.T) {
	t.Parallel()
	tables := rig.ElasticTables + "[train]\nepochs = 25\nglobal_batch = 16\nlog_freq = 1000\n"
	p := rig.PlaceWith(t, tables)
	proc := p.Start(t, append([]string{"run", p.Config}, rig.Set("launch.nproc_per_node=3", "launch.elastic=true", `launch.lost_after="2s"`, `backend.timeout="10m"`)...)...)
	p.WaitForSteps(t, proc, 1, 5)
	rig.Signal(t, p.Worker(t, 1).PID, syscall.SIGSTOP)
	proc.Wait(t).Expect(t, 0).Prints(t, "rank 1 was ended by SIGKILL; 2 ranks go on", "it was silent for 2s")
	changes := rig.ReadRun(t, p.RunDir(1)).Summary.Comm.Elastic
	if len(changes) != 1 || !slices.Equal(changes[0].Left, []int{1}) || !slices.Equal(changes[0].Places, []int{0, 2}) {
		t.Errorf("%+v", changes)
	}
	t.Logf("%+v", changes)
}
