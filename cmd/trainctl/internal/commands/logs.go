package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

func logsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs RUN",
		Short: "Show the logs of a run's ranks, merged by time",
		Long: `Show the output of a run's ranks, the logs of their plugins and their warnings,
merged by time. RUN is a run's directory, its name (the newest run of that name),
name and number (mnist-ddp/3), or latest. A line that several ranks print at the
same time is shown once. Logs of ranks on other hosts are on those hosts.`,
		Example: `  trainctl logs latest --follow
  trainctl logs mnist-ddp --rank 3 --tail 50 --timestamps`,
		Args: cli.Exactly("RUN"),
	}
	var v logView
	f := cmd.Flags()
	base := f.String("run-dir", cli.DefaultRuns, "look for runs in `DIR`")
	ranks := f.IntSlice("rank", nil, "show only rank `N`; repeatable, or comma-separated")
	f.IntVar(&v.tail, "tail", -1, "show only the last `N` lines")
	f.Lookup("tail").DefValue = "all"
	follow := f.BoolP("follow", "f", false, "continue until the run ends")
	f.BoolVarP(&v.stamps, "timestamps", "t", false, "show when each line was written, in UTC")
	f.BoolVar(&v.json, "json", false, "print one JSON object for each line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := cli.FindRun(*base, args[0])
		if err != nil {
			return err
		}
		logs, err := launch.ReadLogs(checkpoint.OsFS(), dir.Logs(), *ranks...)
		if errors.Is(err, fs.ErrNotExist) {
			return cli.Usagef("%v", err)
		}
		if err != nil {
			return err
		}
		defer logs.Close()
		v.w, v.one = cmd.OutOrStdout(), len(*ranks) == 1
		if *follow {
			err = v.follow(cmd.Context(), logs, dir)
		} else {
			err = v.show(logs)
		}
		return errors.Join(err, v.rest(logs))
	}
	return cmd
}

// logView prints lines of logs.
type logView struct {
	w      io.Writer
	one    bool // only one rank: lines have no prefix
	stamps bool
	json   bool
	tail   int // lines; negative: all

	held  launch.LogLine // printed when a different one arrives
	ranks []int          // that printed it
	times int            // how often; 0: nothing is held
}

// show prints the existing lines.
func (v *logView) show(logs *launch.LogReader) error {
	var kept []launch.LogLine
	for {
		line, ok, err := logs.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if v.tail < 0 {
			if err := v.line(line); err != nil {
				return err
			}
			continue
		}
		if kept = append(kept, line); len(kept) > 2*v.tail {
			kept = slices.Delete(kept, 0, len(kept)-v.tail)
		}
	}
	for _, line := range kept[max(0, len(kept)-max(0, v.tail)):] {
		if err := v.line(line); err != nil {
			return err
		}
	}
	v.tail = -1
	return v.flush()
}

// poll is the interval at which files of other processes are read.
const poll = 200 * time.Millisecond

// follow prints existing and new lines until the run has ended.
func (v *logView) follow(ctx context.Context, logs *launch.LogReader, dir event.RunDir) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for last := false; ; {
		if err := v.show(logs); err != nil || last {
			return err
		}
		ended, err := dir.Ended()
		if err != nil {
			return err
		}
		last = ended // one more pass, for lines written before it ended
		select {
		case <-ctx.Done():
			return nil // the user stopped it
		case <-tick.C:
		}
	}
}

// rest prints a last line without a newline.
func (v *logView) rest(logs *launch.LogReader) error {
	for _, line := range logs.Rest() {
		if err := v.line(line); err != nil {
			return err
		}
	}
	return v.flush()
}

// line prints a line, or holds it while other ranks may print the same.
func (v *logView) line(l launch.LogLine) error {
	switch {
	case v.json:
		return json.NewEncoder(v.w).Encode(struct {
			Time string `json:"time,omitempty"`
			Rank int    `json:"rank"`
			Text string `json:"text"`
		}{stampText(l.Time), l.Rank, l.Text})
	case v.one:
		_, err := fmt.Fprintf(v.w, "%s%s\n", v.stamp(l), l.Text)
		return err
	case v.times > 0 && l.Text == v.held.Text && l.Text != "":
		v.times++
		if !slices.Contains(v.ranks, l.Rank) {
			v.ranks = append(v.ranks, l.Rank)
		}
		return nil
	}
	err := v.flush()
	v.held, v.ranks, v.times = l, []int{l.Rank}, 1
	return err
}

// flush prints the held line.
func (v *logView) flush() error {
	if v.times == 0 {
		return nil
	}
	who, note := "rank", ""
	if len(v.ranks) > 1 {
		who = "ranks"
	}
	if v.times > len(v.ranks) {
		note = fmt.Sprintf("  (%d times)", v.times)
	}
	v.times = 0
	slices.Sort(v.ranks)
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(v.ranks), " ", ","), "[]")
	_, err := fmt.Fprintf(v.w, "%s[%s %s] %s%s\n", v.stamp(v.held), who, list, v.held.Text, note)
	return err
}

func (v *logView) stamp(l launch.LogLine) string {
	if !v.stamps {
		return ""
	}
	return stampText(l.Time) + " "
}

func stampText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format("2006-01-02T15:04:05.000000Z07:00")
}
