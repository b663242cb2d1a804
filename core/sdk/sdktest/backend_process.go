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
// the suite talks to the plugin as a training job does. The plugin is the path
// of a binary or the name of one that is built into the host. What the ranks of
// a failed check printed last is part of the check's output.
func BackendProcess(h *host.Host, plugin string) func(testing.TB) sdk.Backend {
	return func(t testing.TB) sdk.Backend {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), defaultPatience)
		defer cancel()
		said := &lastWords{}
		b, err := said.listen(h).StartBackend(ctx, plugin)
		if err != nil {
			t.Fatal(err)
		}
		return &wired{Backend: b, said: said}
	}
}

// wired is a backend behind the wire. The deadline of a collective is the
// group's: contexts do not cross it.
type wired struct {
	*host.Backend
	said *lastWords
}

func (w *wired) Do(_ context.Context, c *sdk.Collective) error {
	ticket, err := w.Submit(c)
	if err != nil {
		return err
	}
	return w.Wait(ticket)
}

func (w *wired) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return w.Backend.Close(ctx)
}

var _ sdk.Backend = (*wired)(nil)

// lastWords keeps the end of what one plugin process logged and printed.
type lastWords struct {
	mu    sync.Mutex
	lines []string
}

// mostWords is how many lines of each rank a failed check shows.
const mostWords = 20

func (l *lastWords) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == mostWords {
		l.lines = slices.Delete(l.lines, 0, 1)
	}
	l.lines = append(l.lines, strings.TrimSpace(string(line)))
	return len(line), nil
}

// listen is the host with a log that l keeps the end of.
func (l *lastWords) listen(h *host.Host) *host.Host {
	return h.WithLog(slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: l.brief})))
}

func (l *lastWords) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// processes are those that a check has started.
type processes struct {
	mu   sync.Mutex
	said []rankWords
}

type rankWords struct {
	rank  int
	words *lastWords
}

// add notes a process that serves a rank. Ranks may start at the same time.
func (p *processes) add(rank int, words *lastWords) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, rankWords{rank, words})
}

// show adds what the processes said last to the output of a check that failed.
func (p *processes) show(t testing.TB) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, s := range p.said {
		if text := s.words.text(); text != "" {
			t.Logf("last lines of rank %d's log:\n%s", s.rank, text)
		}
	}
}

// brief leaves out what is the same in every line.
func (*lastWords) brief(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == "plugin" {
		return slog.Attr{}
	}
	return a
}
