package output

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/crash"
)

const (
	maxDump     = 20_000 // logged lines of a dump of goroutines
	tailLines   = 20
	beforeCrash = 5        // lines before a crash that are shown with it
	maxLine     = 64 << 10 // longer lines are cut
)

// LevelStack is the level of a dump of goroutines. It only goes to the log: messages
// summarise it.
const LevelStack = slog.LevelInfo - 1

// callers are the functions of core/sdk that call into a plugin's code: the
// goroutine that hangs has one of them below the plugin's frames.
var callers = []string{"core/sdk.guard", "core/sdk.(*server).do", "core/sdk.(*server).fill", "core/sdk.(*server).update", "core/sdk.(*server).call"}

// waiting are functions of core/sdk that wait there for the plugin's code.
var waiting = []string{"core/sdk.(*server).Shutdown", "core/sdk.(*server).Drain"}

// Lines logs what a plugin prints and keeps the last of it for messages.
type Lines struct {
	log *slog.Logger

	mu    sync.Mutex
	tail  []string
	dump  crash.Dump // of goroutines, printed when the plugin died or was asked where it hangs
	stack int        // lines of it
	rate  rate
}

// New is for a plugin that prints nothing yet; its lines go to log.
func New(log *slog.Logger) *Lines { return &Lines{log: log} }

// Read takes lines until the stream ends. A line that accept takes is not logged.
func (l *Lines) Read(r io.Reader, accept func(line []byte) bool) {
	b := bufio.NewReaderSize(r, maxLine)
	for {
		line, more, err := b.ReadLine()
		if err != nil {
			return
		}
		if accept == nil || !accept(line) {
			l.Add(string(line))
		}
		for more && err == nil {
			_, more, err = b.ReadLine()
		}
	}
}

// Add takes one line.
func (l *Lines) Add(line string) {
	if l.isStack(line) {
		l.log.Log(context.Background(), LevelStack, line)
		return
	}
	if !l.allowed() {
		l.keep(line)
		return
	}
	if message, ok := l.record(line); ok {
		l.keep(message)
		return
	}
	l.keep(line)
	l.log.Info(line)
}

// isStack consumes a line of a dump of goroutines. The log has the whole dump, the
// last lines a summary.
func (l *Lines) isStack(line string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dump.Callers, l.dump.Waiting = callers, waiting
	if !l.dump.Take(line) || l.stack == maxDump {
		return false
	}
	l.stack++
	return true
}

// Hanging is where the plugin's code hung, nil where it did not say.
func (l *Lines) Hanging() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dump.Hanging()
}

// allowed reports whether a line may be logged. Lines above the rate limit are
// dropped and counted; the count is logged once a second.
func (l *Lines) allowed() bool {
	l.mu.Lock()
	pass, dropped := l.rate.admit(time.Now())
	l.mu.Unlock()
	if dropped > 0 {
		l.log.Warn("the plugin prints too fast; lines were dropped from the log", "dropped", dropped, "limit", fmt.Sprintf("%d lines/s", linesPerSecond))
	}
	return pass
}

func (l *Lines) keep(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tail) == tailLines {
		l.tail = slices.Delete(l.tail, 0, 1)
	}
	l.tail = append(l.tail, line)
}

// Last gives the last lines. Of a crash it gives what happened and where, and
// only a few of the lines before.
func (l *Lines) Last() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.tail)
	if r := l.dump.Report(); r != nil && l.dump.Hanging() == nil {
		return append(out[max(0, len(out)-beforeCrash):], r.Lines()...)
	}
	return out
}

// record logs a line that the plugin's slog wrote, with its own level, time and
// attributes.
func (l *Lines) record(line string) (message string, ok bool) {
	if !strings.HasPrefix(line, "{") {
		return "", false
	}
	var head struct {
		Time  time.Time
		Level slog.Level
		Msg   *string
	}
	if json.Unmarshal([]byte(line), &head) != nil || head.Msg == nil {
		return "", false
	}
	ctx := context.Background()
	if !l.log.Enabled(ctx, head.Level) {
		return *head.Msg, true
	}
	r := slog.NewRecord(head.Time, head.Level, *head.Msg, 0)
	r.AddAttrs(attributes(line)...)
	_ = l.log.Handler().Handle(ctx, r)
	return *head.Msg, true
}

// attributes returns the other members of a record, in their order.
func attributes(line string) []slog.Attr {
	dec := json.NewDecoder(bytes.NewReader([]byte(line)))
	dec.UseNumber()
	var out []slog.Attr
	if _, err := dec.Token(); err != nil {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return out
		}
		var v any
		if dec.Decode(&v) != nil {
			return out
		}
		if name := key.(string); name != slog.TimeKey && name != slog.LevelKey && name != slog.MessageKey {
			out = append(out, slog.Any(name, number(v)))
		}
	}
	return out
}

func number(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, _ := n.Float64()
	return f
}
