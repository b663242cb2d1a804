package sdktest

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// BackendProcess makes a [BackendOptions.New] that starts a process per rank, so that
// the suite calls the plugin as a training job does. The plugin is the path
// of a binary or the name of one that is built into the host. The output of a failed
// check includes the last lines that the ranks' processes printed.
func BackendProcess(h *host.Host, plugin string) func(testing.TB) sdk.Backend {
	return inProcesses(h, plugin, (*host.Host).StartBackend, func(p *host.Backend, log *logTail) sdk.Backend { return &remoteBackend{Backend: p, log: log} })
}

// remoteBackend is a plugin process as an instance. The deadline of a collective is the
// group's: the contexts of calls have no effect.
type remoteBackend struct {
	*host.Backend
	log *logTail
}

func (w *remoteBackend) Do(_ context.Context, c *sdk.Collective) error {
	ticket, err := w.Submit(c)
	if err != nil {
		return err
	}
	return w.Wait(ticket)
}

func (w *remoteBackend) Close() error { return closeProcess(w.Backend) }

var _ sdk.Backend = (*remoteBackend)(nil)

// logTail keeps the last lines that one plugin process logged and printed.
type logTail struct {
	mu    sync.Mutex
	lines []string
}

// tailLines is how many lines of each rank a failed check shows.
const tailLines = 20

func (l *logTail) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == tailLines {
		l.lines = slices.Delete(l.lines, 0, 1)
	}
	l.lines = append(l.lines, strings.TrimSpace(string(line)))
	return len(line), nil
}

// host returns a copy of h that logs to l, which keeps the last lines.
func (l *logTail) host(h *host.Host) *host.Host {
	return h.WithLog(slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: withoutConstants})))
}

// withoutConstants removes attributes that are the same in every line.
func withoutConstants(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == "plugin" {
		return slog.Attr{}
	}
	return a
}

// show adds the lines of a rank to the output of a check.
func (l *logTail) show(t testing.TB, rank int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) > 0 {
		t.Logf("last lines of rank %d's log:\n%s", rank, strings.Join(l.lines, "\n"))
	}
}

// processes are those that a check has started.
type processes struct {
	mu   sync.Mutex
	logs []rankLog
}

type rankLog struct {
	rank int
	tail *logTail
}

// add adds the log of a process that serves a rank. Ranks may start at the same time.
func (p *processes) add(rank int, tail *logTail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logs = append(p.logs, rankLog{rank, tail})
}

// remote adds a process whose calls the host limits: it reports where the process hangs. The
// suite waits longer, for the time that it returns.
func (p *processes) remote(tail *logTail, limit *time.Duration, call time.Duration) time.Duration {
	*limit = call
	p.add(0, tail)
	return call + hostMargin
}

// showLogs adds the last lines of the processes to the output of a check that failed.
func (p *processes) showLogs(t testing.TB) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, l := range p.logs {
		l.tail.show(t, l.rank)
	}
}
