//go:build linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// command runs one command line. It builds trainctl, unless it is given
// one, runs the cases of the fault matrix one after the other and returns the exit
// code: 1 when a case failed, 2 for a mistake on the command line.
func command(args []string, stdout, stderr io.Writer) int {
	o, err := parseFaults(args, stderr)
	if err != nil {
		return 2
	}
	if o.list {
		for _, f := range o.chosen {
			fmt.Fprintf(stdout, "%2d  %s: %s\n", f.number, f.name, f.promise)
		}
		return 0
	}
	if o.from != "" {
		return o.rewrite(stdout, stderr)
	}
	if !isolated() {
		return isolate(stderr)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return o.run(ctx, stdout, stderr)
}

// faultOptions are the command's flags.
type faultOptions struct {
	chosen         []fault
	list, verbose  bool
	json, markdown string // files to write
	from           string // files of results, instead of running
	program        string // to run, instead of building one
}

func parseFaults(args []string, stderr io.Writer) (o faultOptions, err error) {
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "run these `cases` alone, as in 7,13,20-25")
	flags.BoolVar(&o.list, "list", false, "print the cases and run nothing")
	flags.BoolVar(&o.verbose, "v", false, "print what failed cases have logged")
	flags.StringVar(&o.json, "json", "", "write the results into this `file` as JSON")
	flags.StringVar(&o.markdown, "markdown", "", "write the results into this `file` as the page docs/faults.md")
	flags.StringVar(&o.from, "from", "", "run nothing, take the results of these JSON `files`, separated by commas; of a case the last one counts")
	flags.StringVar(&o.program, "program", "", "run the cases against this `executable` of trainctl, instead of building one")
	if err = flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	} else {
		o.chosen, err = choose(matrix(), *only)
	}
	if err == nil && o.program != "" {
		if o.program, err = exec.LookPath(o.program); err == nil {
			o.program, err = filepath.Abs(o.program)
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "faults: %v\n", err)
	}
	return o, err
}

// choose takes the cases that a list of numbers and ranges names, all for "".
func choose(all []fault, only string) (chosen []fault, err error) {
	if only == "" {
		return all, nil
	}
	wanted := map[int]bool{}
	for part := range strings.SplitSeq(only, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		a, err1 := strconv.Atoi(first)
		b, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || a < 1 || b < a || b > len(all) {
			return nil, fmt.Errorf("-only %s: %q is not a case; write numbers from 1 to %d, as in 7,13,20-25", only, part, len(all))
		}
		for n := a; n <= b; n++ {
			wanted[n] = true
		}
	}
	for _, f := range all {
		if wanted[f.number] {
			chosen = append(chosen, f)
		}
	}
	return chosen, nil
}

// run builds trainctl and runs the chosen cases.
func (o faultOptions) run(ctx context.Context, stdout, stderr io.Writer) int {
	dir, err := os.MkdirTemp("", "trainctl-faults-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = prepareFaults(dir, o.program)
	}
	if err != nil {
		fmt.Fprintf(stderr, "faults: %v\n", err)
		return 2
	}
	report := &faultReport{Schema: 1, Date: time.Now().UTC().Truncate(time.Second), Machine: machineLine(), Version: versionLine()}
	fmt.Fprintf(stdout, "%4s  %-44s %8s  %s\n", "case", "fault", "seconds", "outcome and what happened")
	for _, f := range o.chosen {
		if ctx.Err() != nil {
			break
		}
		res := f.try(ctx, filepath.Join(dir, strconv.Itoa(f.number)))
		report.add(res)
		res.print(stdout, o.verbose)
	}
	report.Seconds = time.Since(report.Date).Round(time.Second).Seconds()
	fmt.Fprintf(stdout, "%s of %d cases in %.0f s\n", report.total(), len(o.chosen), report.Seconds)
	if err := report.write(o); err != nil {
		fmt.Fprintf(stderr, "faults: %v\n", err)
		return 2
	}
	if report.Failed > 0 || ctx.Err() != nil {
		return 1
	}
	return 0
}

// rewrite puts results of several runs together.
func (o faultOptions) rewrite(stdout, stderr io.Writer) int {
	var all faultReport
	byCase := map[int]outcome{}
	for path := range strings.SplitSeq(o.from, ",") {
		var r faultReport
		b, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err != nil {
			fmt.Fprintf(stderr, "faults: -from %s: %v\n", path, err)
			return 2
		}
		all.Schema, all.Date, all.Machine, all.Version, all.Seconds = r.Schema, r.Date, r.Machine, r.Version, all.Seconds+r.Seconds
		for _, c := range r.Outcomes {
			byCase[c.Case] = c
		}
	}
	for _, n := range slices.Sorted(maps.Keys(byCase)) {
		all.add(byCase[n])
		byCase[n].print(stdout, o.verbose)
	}
	if err := all.write(o); err != nil {
		fmt.Fprintf(stderr, "faults: %v\n", err)
		return 2
	}
	fmt.Fprintln(stdout, all.total())
	return 0
}
