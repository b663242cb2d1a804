package app

import (
	"os"
	"runtime/debug"
	"sync"

	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// rankLog is the log of a rank that writes it itself, since no launcher of ours
// reads its output. It is a sink of the rank's events. What comes before the log
// is open waits; a log that is never opened loses it.
type rankLog struct {
	remarks remarks

	mu    sync.Mutex
	file  *launch.RankLog // nil: not open
	early []string
}

// maxEarly bounds the texts that wait for the log: a rank that waits for others
// says so again and again.
const maxEarly = 1000

// open opens the log in a run's directory. Go's runtime writes there too, should
// the rank crash.
func (l *rankLog) open(fs checkpoint.FS, dir event.RunDir, rank int, warn func(error)) error {
	file, err := launch.OpenRankLog(fs, dir.Logs(), rank, false, warn)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range l.early {
		file.Lines(text)
	}
	l.file, l.early = file, nil
	f, err := os.OpenFile(dir.RankLog(rank), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close() // the runtime has a copy
	return debug.SetCrashOutput(f, debug.CrashOptions{})
}

// Emit writes what belongs into the log of an event.
func (l *rankLog) Emit(r event.Record) {
	if text := l.remarks.record(r); text != "" {
		l.say(text)
	}
}

// say writes lines.
func (l *rankLog) say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.file != nil:
		l.file.Lines(text)
	case len(l.early) < maxEarly:
		l.early = append(l.early, text)
	}
}

// Close does nothing: the rank has its last word after its events, with close.
func (l *rankLog) Close() error { return nil }

func (l *rankLog) close() error {
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

var _ event.Sink = (*rankLog)(nil)
