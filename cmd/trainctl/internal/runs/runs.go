package runs

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/afero"
	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/page"
	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/internal/builtins"
)

// Command returns "trainctl runs".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List, compare, tag and remove runs",
		Long: `List, compare, tag and remove runs. RUN is a run's directory, its name (the newest run
of that name), name and number (mnist-ddp/3), or latest.`,
		Example: "  trainctl runs ls\n  trainctl runs compare mnist-ddp/1 mnist-ddp/2",
	}
	base := cmd.PersistentFlags().String("run-dir", cli.DefaultRuns, "look for runs in `DIR`")
	return cli.Group(cmd, listCommand(base), compareCommand(base), tagCommand(base), removeCommand(base))
}

// readAll reads the runs that a command names, each once.
func readAll(base string, args []string, read func(afero.Fs, event.RunDir) (*rundir.Run, error)) (list []*rundir.Run, err error) {
	seen := map[string]bool{}
	for _, arg := range args {
		dir, err := cli.FindRun(base, arg)
		if err != nil {
			return nil, err
		}
		if seen[dir.Path] {
			continue
		}
		seen[dir.Path] = true
		r, err := read(checkpoint.OsFS(), dir)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func compareCommand(base *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "compare RUN RUN...",
		Aliases: []string{"diff"},
		Short:   "Show in which results and settings runs differ",
		Example: "  trainctl runs compare mnist-ddp/1 mnist-ddp/2\n  trainctl runs compare base wide --all",
		Args: func(cmd *cobra.Command, args []string) error {
			return cli.Exactly(append([]string{"RUN", "RUN"}, args[min(2, len(args)):]...)...)(cmd, args)
		},
	}
	all := cmd.Flags().Bool("all", false, "also show results that are equal")
	show := cli.JSONFlag(cmd, "one JSON object, with all results")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		list, err := readAll(*base, args, rundir.Read)
		if err != nil {
			return err
		}
		c := page.Compare(list, page.Options{Version: cli.Version(), Now: time.Now(), Plugins: builtins.Infos()})
		return show(c, func(w io.Writer) error { return compareTable(w, c, *all) })
	}
	return cmd
}

func compareTable(w io.Writer, c page.Comparison, all bool) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	cells(tw, append([]string{""}, c.Runs...)...)
	rows := func(list []page.Row) {
		for _, r := range list {
			if r.Differs || all {
				cells(tw, append([]string{r.Label}, r.Cells...)...)
			}
		}
	}
	rows(c.Facts)
	if len(c.Settings) > 0 {
		cells(tw, "")
		cells(tw, "settings")
		rows(c.Settings)
	}
	if err := tw.Flush(); err != nil || len(c.Settings) > 0 {
		return err
	}
	_, err := fmt.Fprintln(w, "\nno setting differs")
	return err
}

// cells writes a line of a table. Texts of runs become one line without control characters.
func cells(w io.Writer, list ...string) {
	for i, c := range list {
		list[i] = strings.Join(strings.Fields(rundir.Clean(c, 300)), " ")
	}
	fmt.Fprintln(w, strings.Join(list, "\t"))
}

func tagCommand(base *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tag RUN [TAG]...",
		Short: "Change the tags and the note of a run, or show them",
		Long: `Add tags to a run, remove some, or set its note: trainctl ui and trainctl report show them,
and trainctl runs ls finds runs by them. Without changes, tags and note are printed.`,
		Example: "  trainctl runs tag mnist-ddp/3 baseline\n  trainctl runs tag latest --remove baseline --note \"a quarter of the batch\"",
		Args:    cli.AtLeastOne("RUN"),
	}
	drop := cmd.Flags().StringSlice("remove", nil, "remove `TAG`; repeatable, or comma-separated")
	note := cmd.Flags().String("note", "", "replace the note by `TEXT`; empty removes it")
	show := cli.JSONFlag(cmd, "one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := readAll(*base, args[:1], rundir.ReadBrief)
		if err != nil {
			return err
		}
		run := list[0]
		l, err := rundir.ReadLabels(checkpoint.OsFS(), run.Dir)
		if err != nil {
			return err
		}
		if changed := cmd.Flags().Changed("note"); changed || len(args) > 1 || len(*drop) > 0 {
			if l, err = relabel(l, args[1:], *drop); err != nil {
				return err
			}
			if changed {
				l.Note = strings.TrimSpace(*note)
			}
			if err := rundir.WriteLabels(checkpoint.OsFS(), run.Dir, l); err != nil {
				return err
			}
			if l, err = rundir.ReadLabels(checkpoint.OsFS(), run.Dir); err != nil {
				return err
			}
		}
		return show(l, func(w io.Writer) error {
			tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			cells(tw, "run", run.ID)
			cells(tw, "tags", strings.Join(l.Tags, ", "))
			cells(tw, "note", l.Note)
			return tw.Flush()
		})
	}
	return cmd
}

// relabel adds and removes tags.
func relabel(l rundir.Labels, add, drop []string) (rundir.Labels, error) {
	kept := append([]string(nil), add...)
	for _, t := range add {
		if strings.TrimSpace(t) == "" || strings.Contains(t, ",") {
			return l, cli.Usagef("tag %q is empty or has a comma; fix: give each tag as an argument of its own", t)
		}
	}
	gone := map[string]bool{}
	for _, t := range drop {
		gone[strings.TrimSpace(t)] = true
	}
	for _, t := range l.Tags {
		if gone[t] {
			delete(gone, t)
			continue
		}
		kept = append(kept, t)
	}
	for t := range gone {
		return l, cli.Usagef("--remove: the run has no tag %q; fix: its tags are: %s", t, strings.Join(l.Tags, ", "))
	}
	l.Tags = kept
	return l, nil
}
