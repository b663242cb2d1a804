package timeline

import "time"

// Stream is one row of a rank: things that happen one after the other.
type Stream uint8

// The streams of a rank.
const (
	Compute       Stream = iota // forward, backward, optimizer, evaluation
	Communication               // collectives while the backend works on them
	Data                        // waiting for batches
	Checkpoint                  // training is paused for a snapshot
	Elastic                     // the ranks pause while others leave or join
	streams
)

// Slice is one recorded operation.
type Slice struct {
	Stream Stream
	Name   string        // a constant
	Index  int           // of bucket or micro-step; negative: none
	Step   int           // optimizer step, from 1
	Bytes  int           // 0: none
	Start  time.Duration // since the job's start
	Length time.Duration
}

// Steps is how many steps a recorder keeps of the beginning and of the end.
const Steps = 50

// Recorder is for the goroutine of the training loop.
type Recorder struct {
	job    time.Time     // the job's start
	origin time.Time     // of this recorder, with a monotonic clock
	ahead  time.Duration // of the job's start
	first  int
	step   int
	head   []Slice // the first steps
	tail   []Slice // a ring of the last slices
	next   int     // in tail
	lost   bool    // the ring has overwritten something
	torn   int     // the step of which only a part fitted into the head; 0: none
}

// room bounds each of head and tail: 5 MB.
const room = 1 << 16

// New creates a recorder for a rank whose steps have about perStep slices. Times count
// from the start of the job, which is the same for all ranks.
func New(job time.Time, perStep int) *Recorder {
	now := time.Now()
	n := min(Steps*min(perStep, room)+64, room) // evaluations and checkpoints come on top
	return &Recorder{job: job.Round(0), origin: now, ahead: now.Sub(job), head: make([]Slice, 0, n), tail: make([]Slice, 0, n)}
}

// Mark is a moment.
type Mark time.Duration

// Now is the present moment.
func (r *Recorder) Now() Mark {
	if r == nil {
		return 0
	}
	return Mark(r.ahead + time.Since(r.origin))
}

// Step sets the step of the slices recorded from now on.
func (r *Recorder) Step(n int) {
	if r == nil {
		return
	}
	if r.first == 0 {
		r.first = n
	}
	r.step = n
}

// Since records a slice from a mark until now, and returns the current time.
func (r *Recorder) Since(s Stream, name string, index int, begin Mark) Mark {
	if r == nil {
		return 0
	}
	now := r.Now()
	r.add(Slice{Stream: s, Name: name, Index: index, Start: time.Duration(begin), Length: time.Duration(now - begin)})
	return now
}

// Span records what another process of this machine did between two times of
// the wall clock.
func (r *Recorder) Span(s Stream, name string, index, bytes int, begin, end time.Time) {
	if r == nil {
		return
	}
	r.add(Slice{Stream: s, Name: name, Index: index, Bytes: bytes, Start: begin.Sub(r.job), Length: max(0, end.Sub(begin))})
}

func (r *Recorder) add(s Slice) {
	s.Step = r.step
	switch {
	case r.step < r.first+Steps && len(r.head) < cap(r.head):
		r.head = append(r.head, s)
		return
	case r.torn == 0 && r.step < r.first+Steps && r.step > 0:
		r.torn = r.step
	}
	switch {
	case len(r.tail) < cap(r.tail):
		r.tail = append(r.tail, s)
	default:
		r.tail[r.next] = s
		r.next = (r.next + 1) % len(r.tail)
		r.lost = true
	}
}

// Slices returns the recorded slices: the first steps and the last, each of them whole.
func (r *Recorder) Slices() []Slice {
	if r == nil {
		return nil
	}
	var out []Slice
	for _, s := range r.head {
		if s.Step != r.torn || s.Step == 0 {
			out = append(out, s)
		}
	}
	from := r.step - Steps + 1
	if r.lost {
		from = max(from, r.tail[r.next].Step+1) // of which a part was overwritten
	}
	for i := range r.tail {
		if s := r.tail[(r.next+i)%len(r.tail)]; s.Step >= from && s.Step != r.torn {
			out = append(out, s)
		}
	}
	return out
}
