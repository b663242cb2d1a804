package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/sdk"
)

func pluginsTestCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test PLUGIN",
		Short: "Run the conformance suite against a plugin",
		Long: `Run the conformance suite of a plugin's kind against PLUGIN, the path of a binary
or the name of a built-in plugin, with processes and shared memory as in a run.
The exit code is 1 if a check fails, and 3 if the plugin does not start.

The suite is that of core/sdk/sdktest, which a plugin's own go test can call.`,
		Example: `  trainctl plugins test ./trainctl-plugin-mine
  trainctl plugins test ./trainctl-plugin-mine --quick --set dataset.options.root=testdata`,
		Args: exactly("PLUGIN"),
	}
	f := cmd.Flags()
	kind := f.String("kind", "", "`KIND` of plugin if the binary serves several: backend, precision or dataset")
	set := f.StringArray("set", nil, "set an option of the plugin by `KEY=VALUE`, such as dataset.options.root=testdata; repeatable")
	quick := f.Bool("quick", false, "test fewer ranks, sizes and samples")
	anyOrder := f.Bool("any-order", false, "accept sums in any order, such as a ring's, if they are equal within rounding")
	timeout := f.Duration("timeout", 10*time.Minute, "give up after this `TIME`")
	call := f.Duration("call-timeout", 30*time.Second, "fail a check if one call takes longer than this `TIME`")
	asJSON := f.Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := knownKind(*kind); err != nil {
			return err
		}
		if *timeout <= 0 {
			return usagef("--timeout %v: give a time such as 10m", *timeout)
		}
		if *call <= 0 {
			return usagef("--call-timeout %v: give a time such as 30s", *call)
		}
		if s.Plugins.Info == nil {
			return absent("plugins test")
		}
		info, err := s.Plugins.Info(cmd.Context(), *kind, args[0])
		if err != nil {
			return err
		}
		r := suiteRequest{Plugin: args[0], Kind: sdk.Kind(info.Kind), Set: *set, Quick: *quick, AnyOrder: *anyOrder, Timeout: *timeout, Call: *call}
		given, err := parseOptions(info.Kind, *set)
		if err != nil {
			return err
		}
		if _, problems := sdk.CheckOptions(info.Kind+".options", info.published, given); len(problems) > 0 {
			return problems.Err()
		}
		info.Options = nil
		report := testReport{Plugin: info}
		if !*asJSON {
			report.out = cmd.OutOrStdout()
			fmt.Fprintf(report.out, "%s %s %s\n", info.Kind, args[0], info.Version)
		}
		if err := report.run(cmd.Context(), r); err != nil {
			return err
		}
		if *asJSON {
			err = writeJSON(cmd.OutOrStdout(), report)
		} else {
			err = report.finish()
		}
		if err == nil && report.Failed > 0 {
			err = reported{failedChecks(report.Failed)}
		}
		return err
	}
	return cmd
}

// failedChecks is the error of a plugin that does not conform; its report was printed.
type failedChecks int

func (e failedChecks) Error() string { return fmt.Sprintf("%d checks failed", int(e)) }
func (e failedChecks) ExitCode() int { return launch.ExitFailed }

// testReport is the result of the suite.
type testReport struct {
	Plugin  pluginInfo  `json:"plugin"`
	Passed  int         `json:"passed"`
	Failed  int         `json:"failed"`
	Skipped int         `json:"skipped"`
	Seconds float64     `json:"seconds"`
	Checks  []testCheck `json:"checks"`

	out  io.Writer // gets a line when a group has ended; may be nil
	last string    // of the failures that were printed
}

// testCheck is one check: a test without subtests.
type testCheck struct {
	Name    string  `json:"name"`
	Status  string  `json:"status"` // "pass", "fail" or "skip"
	Seconds float64 `json:"seconds"`
	Output  string  `json:"output,omitempty"` // of those that did not pass
}

// run starts this program again as the suite and reads its output.
func (t *testReport) run(ctx context.Context, r suiteRequest) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, exe, "plugins", "suite", string(text))
	var last strings.Builder
	cmd.Stderr = &last
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s := newSuiteReader(t)
	lines := bufio.NewReader(out)
	for err == nil {
		var line string
		line, err = lines.ReadString('\n')
		s.line(strings.TrimSuffix(line, "\n"))
	}
	t.Seconds = time.Since(began).Seconds()
	return s.ended(cmd.Wait(), last.String())
}

// group prints a line for a group of the suite that has ended.
func (t *testReport) group(name, status string, seconds float64, checks []testCheck) {
	if t.out == nil {
		return
	}
	note := ""
	if len(checks) > 1 {
		note = fmt.Sprintf("  (%d checks)", len(checks))
	}
	fmt.Fprintf(t.out, "  %s  %-38s %6.2f s%s\n", status, name, seconds, note)
	for _, c := range checks {
		if c.Status != "fail" {
			continue
		}
		if c.Name != name {
			fmt.Fprintf(t.out, "        %s\n", c.Name)
		}
		t.failure(c.Output)
	}
}

// failure prints a check's output, unless it is the same as that of the check before.
func (t *testReport) failure(text string) {
	if text == t.last && text != "" {
		text = "as above"
	} else {
		t.last = text
	}
	for line := range strings.Lines(text) {
		fmt.Fprintf(t.out, "          %s\n", strings.TrimSpace(line))
	}
}

func (t *testReport) finish() error {
	_, err := fmt.Fprintf(t.out, "passed %d, skipped %d, failed %d in %.1f s\n", t.Passed, t.Skipped, t.Failed, t.Seconds)
	return err
}

var errSuite = errors.New("the conformance suite did not finish")
