package rundir

import (
	"fmt"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
)

// Trace is timeline.json: what every rank did in the first and the last steps.
type Trace struct {
	Ranks [][]timeline.Slice // by rank, those of a stream sorted by time
	Notes []string           // what is missing from it
	Stamp string             // changes with the file
}

// Timeline is ReadTimeline, which it does again only if the file has changed. The caller must not change
// the trace.
func (r *Reader) Timeline(most int) (*Trace, error) {
	info, err := r.fs.Stat(r.Run.Dir.Timeline())
	if err != nil {
		return ReadTimeline(r.fs, r.Run.Dir, most)
	}
	stamp := fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano(), " ", most)
	if r.trace == nil || r.trace.Stamp != stamp {
		if r.trace, err = ReadTimeline(r.fs, r.Run.Dir, most); r.trace != nil {
			r.trace.Stamp = stamp
		}
	}
	return r.trace, err
}

// ReadTimeline reads at most most slices of a run's trace, as many whole steps from the beginning
// and the end as fit. It returns nil if the run recorded none (metrics.timeline).
func ReadTimeline(fsys afero.Fs, dir event.RunDir, most int) (*Trace, error) {
	f, err := fsys.Open(dir.Timeline())
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &Trace{}
	if t.Ranks, t.Notes, err = timeline.Read(f); err != nil {
		return nil, fmt.Errorf("%s: %w", dir.Timeline(), err)
	}
	for rank, all := range t.Ranks {
		timeline.SortBySteps(all)
		kept, note := timeline.Cut(all, max(1, most/len(t.Ranks)))
		if t.Ranks[rank] = kept; note != "" {
			t.Notes = append(t.Notes, fmt.Sprintf("rank %d: %s", rank, note))
		}
	}
	return t, nil
}
