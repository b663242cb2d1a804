package flight

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// About is the header of a record: the rank whose operations it holds.
type About struct {
	Rank    int       `json:"rank"`
	World   int       `json:"world"`
	Attempt int       `json:"attempt"` // number of restarts of the ranks before
	PID     int       `json:"pid"`     // of the rank
	Host    string    `json:"host"`
	Plugin  string    `json:"plugin"`
	Started time.Time `json:"started"`
}

// Path returns the path of a rank's record in a directory.
func Path(dir string, rank, attempt int) string {
	return filepath.Join(dir, fmt.Sprintf("rank-%d.%d.flight", rank, attempt))
}

// Report holds the last operations of a run, as far as they are known.
type Report struct {
	Schema int      `json:"schema"`
	Ranks  []Rank   `json:"ranks"`            // of the last attempt, by rank
	Absent []int    `json:"absent,omitempty"` // ranks without a record here: they ran on other hosts, or never opened a backend
	Notes  []string `json:"notes,omitempty"`  // files that could not be read
	Differ string   `json:"differ,omitempty"` // which ranks lag behind in which operation, in words
	// Slowest is nil if no rank was much slower than the others.
	Slowest *Slowest `json:"slowest,omitempty"`
	// Missing are the ranks that have not called the operation that the others wait for.
	Missing []int `json:"-"`
}

// Rank is one rank's record.
type Rank struct {
	About
	Total      uint64      `json:"total"`      // operations since the rank was started
	Operations []Operation `json:"operations"` // the last of them, at most 1,024, the oldest first
}

// The states of an operation.
const (
	Queued  = "queued"  // the plugin has not begun it, or did not get to report it
	Begun   = "begun"   // but not ended
	Ended   = "ended"   //
	Failed  = "failed"  //
	Dropped = "dropped" // its plugin was replaced before it ended
)

// Operation is one collective. Times are zero until they are known; the time between
// Begun and Ended includes waiting for other ranks.
type Operation struct {
	Seq        uint64    `json:"seq"`
	Op         string    `json:"op"`
	DType      string    `json:"dtype,omitempty"`
	Reduce     string    `json:"reduce,omitempty"`
	Bytes      uint64    `json:"bytes"`
	Bucket     int       `json:"bucket"` // -1: none
	Generation int       `json:"generation"`
	State      string    `json:"state"`
	Queued     time.Time `json:"queued"`
	Begun      time.Time `json:"begun,omitzero"`
	Ended      time.Time `json:"ended,omitzero"`
}

// ErrNone is returned by Read for a run without any record.
var ErrNone = errors.New("no flight record")

// Read reads the records in a directory, also while the run is in progress.
func Read(dir string) (*Report, error) {
	files, err := filepath.Glob(filepath.Join(dir, "rank-*.flight"))
	if err != nil {
		return nil, err
	}
	r := &Report{Schema: 1}
	for _, path := range files {
		rank, err := readRank(path)
		if err != nil {
			r.Notes = append(r.Notes, err.Error())
			continue
		}
		r.Ranks = append(r.Ranks, rank)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w in %s: its ranks never opened a backend, or an older trainctl ran it", ErrNone, dir)
	}
	r.keepLastAttempt()
	r.compare()
	r.Slowest = r.slowest()
	return r, nil
}

func readRank(path string) (Rank, error) {
	about, flights, total, err := shm.ReadFlightFile(path)
	if err != nil {
		return Rank{}, err
	}
	out := Rank{Total: total}
	if err := json.Unmarshal(about, &out.About); err != nil {
		return Rank{}, fmt.Errorf("%s: %w", path, err)
	}
	last := 0
	for i := range flights {
		last = max(last, int(flights[i].Generation))
	}
	for i := range flights {
		out.Operations = append(out.Operations, operation(&flights[i], last))
	}
	return out, nil
}

func operation(f *shm.Flight, generation int) Operation {
	o := Operation{
		Seq: f.Seq, Op: sdk.Op(f.Op).String(), Bytes: f.Bytes, Bucket: int(f.Bucket), Generation: int(f.Generation),
		Queued: f.Enqueued, Begun: f.Started, Ended: f.Ended,
	}
	d := sdk.Op(f.Op).Definition()
	if d.Reduces {
		o.Reduce = sdk.ReduceOp(f.Reduce).String()
	}
	if d.Kind != contract.NoData {
		o.DType = tensor.DType(f.DType).String()
	}
	switch {
	case !f.Ended.IsZero() && f.Status != shm.OK:
		o.State = Failed
	case !f.Ended.IsZero():
		o.State = Ended
	case int(f.Generation) < generation:
		o.State = Dropped
	case !f.Started.IsZero():
		o.State = Begun
	default:
		o.State = Queued
	}
	return o
}

// keepLastAttempt drops the records of earlier starts of the ranks.
func (r *Report) keepLastAttempt() {
	attempt, world := 0, 0
	for i := range r.Ranks {
		attempt = max(attempt, r.Ranks[i].Attempt)
	}
	r.Ranks = slices.DeleteFunc(r.Ranks, func(k Rank) bool { return k.Attempt != attempt })
	slices.SortFunc(r.Ranks, func(a, b Rank) int { return a.Rank - b.Rank })
	have := map[int]bool{}
	for i := range r.Ranks {
		have[r.Ranks[i].Rank] = true
		world = max(world, r.Ranks[i].World)
	}
	const most = 1 << 16 // limit for the value in a broken file
	for rank := range min(world, most) {
		if !have[rank] {
			r.Absent = append(r.Absent, rank)
		}
	}
}

// compare finds the operation that ranks wait for: the oldest that has not ended on
// any rank, since an operation that ended on one rank was called by all. The record
// of a stopped rank may be older than those of the others.
func (r *Report) compare() {
	var over uint64
	for i := range r.Ranks {
		if o := r.Ranks[i].last(Ended); o != nil {
			over = max(over, o.Seq)
		}
	}
	var first *Operation
	for i := range r.Ranks {
		if o := r.Ranks[i].open(over); o != nil && (first == nil || o.Seq < first.Seq) {
			first = o
		}
	}
	if first == nil {
		return
	}
	var came, missing []int
	for i := range r.Ranks {
		if k := &r.Ranks[i]; k.calledUpTo() >= first.Seq {
			came = append(came, k.Rank)
		} else {
			missing = append(missing, k.Rank)
		}
	}
	r.Differ = fmt.Sprintf("%s called %v, which has not ended on any rank", ranks(came), first)
	if r.Missing = missing; len(missing) > 0 {
		r.Differ = fmt.Sprintf("%s called %v, %s did not", ranks(came), first, ranks(missing))
	}
}

// open returns the oldest operation after a sequence number that is neither ended nor dropped.
func (k *Rank) open(after uint64) *Operation {
	for i := range k.Operations {
		if o := &k.Operations[i]; o.Seq > after && (o.State == Queued || o.State == Begun) {
			return o
		}
	}
	return nil
}

func (k *Rank) calledUpTo() uint64 {
	if len(k.Operations) == 0 {
		return 0
	}
	return k.Operations[len(k.Operations)-1].Seq
}

// last returns the newest operation in a state, or nil.
func (k *Rank) last(state string) *Operation {
	for i := range slices.Backward(k.Operations) {
		if k.Operations[i].State == state {
			return &k.Operations[i]
		}
	}
	return nil
}
