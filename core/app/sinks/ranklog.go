package sinks

import (
	"os"
	"runtime/debug"
	"sync"

	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// RankLog is the log that a rank writes itself when our launcher does not read its
// output. It is a sink of the rank's events. It keeps lines until the log is open; if
// it is never opened, they are lost.
type RankLog struct {
	remarks Remarks

	mu    sync.Mutex
	file  *launch.RankLog // nil: not open
	early []string
}

// maxEarly bounds the lines kept until the log is open: a rank that waits for others
// reports so repeatedly.
const maxEarly = 1000

// Open opens the log in a run's directory. If the rank crashes, Go's runtime writes
// there too.
func (l *RankLog) Open(fs checkpoint.FS, dir event.RunDir, rank int, warn func(error)) error {
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

// Emit writes the log lines for an event.
func (l *RankLog) Emit(r event.Record) {
	if text := l.remarks.record(r); text != "" {
		l.Say(text)
	}
}

// Say writes lines.
func (l *RankLog) Say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.file != nil:
		l.file.Lines(text)
	case len(l.early) < maxEarly:
		l.early = append(l.early, text)
	}
}

// Close does nothing: the rank still writes after its events, and calls End.
func (l *RankLog) Close() error { return nil }

// End closes the log.
func (l *RankLog) End() error {
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

var _ event.Sink = (*RankLog)(nil)
