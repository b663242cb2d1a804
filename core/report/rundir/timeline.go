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
