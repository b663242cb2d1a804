package bench

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/data"
)

// counter is a data set that counts how often it was asked for each sample.
type counter struct {
	seen map[int64]int
	fail error
}

func (c *counter) Request(_ int, _ sdk.Split, _ int, _ uint64, indices []int64) error {
	for _, i := range indices {
		c.seen[i]++
	}
	return nil
}

func (c *counter) Wait(int) (input, target []byte, err error) { return nil, nil, c.fail }

func feed(t *testing.T, c *counter, n, world, rank int) Feed {
	t.Helper()
	s, err := data.NewSampler(data.Default(), 1, n, world, rank)
	if err != nil {
		t.Fatal(err)
	}
	return Feed{Source: c, Sampler: s}
}

// Every rank reads its share of every epoch, the first one and later ones apart.
func TestDataReadsWholeEpochs(t *testing.T) {
	ranks := []*counter{{seen: map[int64]int{}}, {seen: map[int64]int{}}}
	feeds := []Feed{feed(t, ranks[0], 20, 2, 0), feed(t, ranks[1], 20, 2, 1)}
	first, results, err := Data(t.Context(), feeds, DataSpec{Batch: 3, Slots: 3, SampleBytes: 8, Budget: 20 * time.Millisecond})
	if err != nil || first <= 0 || len(results) != 2 || results[0].Epochs != "first" || results[1].Epochs != "later" {
		t.Fatalf("first %v, %+v, %v", first, results, err)
	}
	if r := results[0]; r.Batches != 2*4 || r.SamplesPerSec <= 0 || r.MBPerSec <= 0 || r.P99 < r.P50 {
		t.Errorf("%+v", r)
	}
	for i := range int64(20) {
		if ranks[0].seen[i]+ranks[1].seen[i] == 0 {
			t.Errorf("nobody has read sample %d", i)
		}
	}
}

func TestDataReportsAFailedBatch(t *testing.T) {
	broken := errors.New("broken")
	c := &counter{seen: map[int64]int{}, fail: broken}
	if _, _, err := Data(t.Context(), []Feed{feed(t, c, 20, 1, 0)}, DataSpec{Batch: 3, Slots: 2, Budget: time.Second}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		ranks, threads        int
		plugin, queue, worker float64
		want                  string
	}{
		{1, 1, 0.95, 0, 0.1, "computing in the plugin: it keeps its 1 thread busy"},
		{1, 8, 7.5, 0, 0.1, "computing in the plugin: it keeps its 8 threads busy"},
		{1, 8, 1.0, 0, 0.1, "it keeps 1.0 of its 8 threads busy"},
		{2, 4, 3.0, 0, 0.9, "the host: 7.8 of its 8 cores"},
		{1, 2, 0.4, 0.6, 0.1, "other work on the host"},
		{1, 2, 0.4, 0.1, 0.95, "the rank"},
		{1, 2, 0.2, 0.1, 0.1, "waiting: the plugin computes 20 %"},
		{1, 2, 0, 0, 0, ""},
	} {
		r := DataReport{Ranks: c.ranks, Threads: c.threads, CPUs: 8, Results: []DataResult{
			{PluginCores: 99}, {PluginCores: c.plugin, PluginQueue: c.queue, RankCores: c.worker},
		}}
		r.Explain()
		if !strings.Contains(r.Bound, c.want) || (r.Bound == "") != (c.want == "") {
			t.Errorf("%+v: %q, want %q", c, r.Bound, c.want)
		}
	}
}
