package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/data"
)

// Feed is the source of one rank's batches.
type Feed struct {
	Source  data.Batches // open, its slots prepared
	PID     int          // of the plugin's process; 0: in this one
	Sampler *data.Sampler
}

// DataSpec describes the batches that ranks request.
type DataSpec struct {
	Batch       int // samples
	Slots       int // prefetched batches and the one in use
	Seed        uint64
	SampleBytes int // of input and target
	Budget      time.Duration
}

// DataResult is how fast batches arrive when ranks do not compute with them.
type DataResult struct {
	Epochs        string  `json:"epochs"` // "first" or "later"
	Batches       int     `json:"batches"`
	SamplesPerSec float64 `json:"samples_per_sec"` // of all ranks
	MBPerSec      float64 `json:"mb_per_sec"`      // decimal, as the model gets them
	P50           float64 `json:"p50_ms"`          // of a batch, the slowest rank's
	P99           float64 `json:"p99_ms"`
	PluginCores   float64 `json:"plugin_cores"`     // that one rank's plugin keeps busy; 0: unknown
	PluginQueue   float64 `json:"plugin_queue"`     // threads of it that were ready and had no core, on average
	PerCore       float64 `json:"samples_per_core"` // samples per second that a plugin spends on a core; 0: unknown
	RankCores     float64 `json:"rank_cores"`       // that a rank's loop keeps busy; 0: unknown
}

// DataReport is the data path of a configuration.
type DataReport struct {
	Plugin      string       `json:"plugin"`
	Source      string       `json:"source"`
	Notice      string       `json:"notice,omitempty"`
	Samples     int          `json:"train_samples"`
	SampleBytes int          `json:"sample_bytes"`
	Batch       int          `json:"batch"`
	Prefetch    int          `json:"prefetch"`
	Ranks       int          `json:"ranks"`   // on this host
	Threads     int          `json:"threads"` // of each rank and plugin
	CPUs        int          `json:"cpus"`
	FirstMS     float64      `json:"first_batch_ms"` // the slowest rank's
	Results     []DataResult `json:"results"`
	Bound       string       `json:"bound"` // the bottleneck; empty: unknown
}

// Data reads batches of the training set for about the budget, on all ranks at
// once and as fast as they come: from the plugins through their shared slots to
// the ranks' caches, in the order and with as many batches ahead as in training.
func Data(ctx context.Context, feeds []Feed, s DataSpec) (first time.Duration, out []DataResult, err error) {
	readers := make([]reader, len(feeds))
	g, ctx := errgroup.WithContext(ctx)
	for r := range feeds {
		readers[r] = reader{Feed: feeds[r], DataSpec: s}
		g.Go(func() error { return readers[r].run(ctx) })
	}
	if err := g.Wait(); err != nil {
		return 0, nil, err
	}
	for i, name := range []string{"first", "later"} {
		res := DataResult{Epochs: name}
		for r := range readers {
			readers[r].parts[i].addTo(&res, &s, len(readers))
			first = max(first, readers[r].first)
		}
		if res.PluginCores > 0 {
			res.PerCore = res.SamplesPerSec / res.PluginCores / float64(len(feeds))
		}
		if res.Batches > 0 {
			out = append(out, res)
		}
	}
	return first, out, nil
}

// reader is a rank that only reads.
type reader struct {
	Feed
	DataSpec
	first time.Duration
	parts [2]part // of the first epoch, and of the later ones
	seen  byte    // keeps the compiler from removing fetch
}

// part is what one rank measured.
type part struct {
	laps    laps
	samples int
	wall    time.Duration
	plugin  cpuTime
	rank    time.Duration // of this thread on a core
}

// cpuTime is the CPU time of a process.
type cpuTime struct{ used, ready time.Duration }

func (r *reader) run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	loader := data.NewLoader(r.Source, r.Slots, r.Batch, r.Seed)
	deadline := time.Now().Add(r.Budget)
	for epoch := 0; epoch == 0 || time.Now().Before(deadline); epoch++ {
		if err := r.epoch(ctx, loader, epoch, deadline); err != nil {
			return err
		}
	}
	return loader.Stop()
}

// epoch reads one epoch, or as much as the time allows, but at least three batches.
func (r *reader) epoch(ctx context.Context, loader *data.Loader, epoch int, deadline time.Time) error {
	p := &r.parts[min(epoch, 1)]
	begin, plugin, rank := time.Now(), processTime(r.PID), threadTime()
	if err := loader.Start(sdk.Train, epoch, r.Sampler.Epoch(epoch), 0); err != nil {
		return err
	}
	last := begin
	for n := 0; loader.Left() > 0 && (epoch == 0 && n < 3 || last.Before(deadline)); n++ {
		b, err := loader.Next()
		if errors.Is(err, data.ErrEnd) {
			break
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("batch %d of epoch %d: %w", n, epoch, err)
		}
		now := time.Now()
		if r.first == 0 {
			r.first = now.Sub(begin)
		}
		p.laps = append(p.laps, now.Sub(last))
		p.samples += b.Rows
		r.seen += fetch(b.Input)
		last = now
	}
	p.wall += last.Sub(begin)
	now := processTime(r.PID)
	p.plugin.used += now.used - plugin.used
	p.plugin.ready += now.ready - plugin.ready
	p.rank += threadTime() - rank
	return nil
}

// fetch brings memory into this core's cache, as computing with it would.
func fetch(b []byte) (sum byte) {
	const line = 64
	for i := 0; i < len(b); i += line {
		sum += b[i]
	}
	return sum
}

// addTo adds the result of one rank to that of all.
func (p *part) addTo(res *DataResult, s *DataSpec, ranks int) {
	if p.wall <= 0 {
		return
	}
	seconds := p.wall.Seconds()
	res.Batches += len(p.laps)
	res.SamplesPerSec += float64(p.samples) / seconds
	res.MBPerSec += float64(p.samples) * float64(s.SampleBytes) / seconds / 1e6
	res.P50 = max(res.P50, micros(p.laps.percentile(0.5))/1e3)
	res.P99 = max(res.P99, micros(p.laps.percentile(0.99))/1e3)
	res.PluginCores += p.plugin.used.Seconds() / seconds / float64(ranks)
	res.PluginQueue += p.plugin.ready.Seconds() / seconds / float64(ranks)
	res.RankCores += p.rank.Seconds() / seconds / float64(ranks)
}

// busy is the fraction of a core from which it counts as fully used.
const busy = 0.85

// Explain sets the bottleneck of the last result.
func (r *DataReport) Explain() {
	if len(r.Results) == 0 {
		return
	}
	last := &r.Results[len(r.Results)-1]
	plugin, queue := last.PluginCores, last.PluginQueue
	all := float64(r.Ranks) * (plugin + last.RankCores)
	switch {
	case plugin == 0:
	case plugin >= busy*float64(r.Threads):
		r.Bound = fmt.Sprintf("computing in the plugin: it keeps its %s busy", counted(r.Threads, "thread"))
	case all >= busy*float64(r.CPUs):
		r.Bound = fmt.Sprintf("the host: %.1f of its %s are busy", all, counted(r.CPUs, "core"))
	case plugin >= busy:
		r.Bound = fmt.Sprintf("computing in the plugin: it keeps %.1f of its %d threads busy", plugin, r.Threads)
	case plugin+queue >= busy:
		r.Bound = fmt.Sprintf("other work on the host: the plugin computes %.0f %% of the time and waits for a core for %.0f %%", 100*plugin, 100*queue)
	case last.RankCores >= busy:
		r.Bound = "the rank: its loop over the batches uses a full core"
	default:
		r.Bound = fmt.Sprintf("waiting: the plugin computes %.0f %% of the time and waits for files, the network or its next batch the rest of the time", 100*plugin)
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
