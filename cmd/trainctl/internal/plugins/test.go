package plugins

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/conformance"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/plugin/sandbox"
	"github.com/trainctl/trainctl/core/sdk"
)

func testCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test PLUGIN",
		Short: "Run the conformance suite against a plugin",
		Long: `Run the conformance suite of a plugin's kind against PLUGIN, the path of a binary
or the name of a built-in plugin, with processes and shared memory as in a run.
The plugin has the sandbox that a run would give it.
The exit code is 1 if a check fails, and 3 if the plugin does not start.

The suite is that of core/sdk/sdktest, which a plugin's own go test can call.`,
		Example: `  trainctl plugins test ./trainctl-plugin-mine
  trainctl plugins test ./trainctl-plugin-mine --quick --set dataset.options.root=testdata`,
		Args: cli.Exactly("PLUGIN"),
	}
	f := cmd.Flags()
	kind := f.String("kind", "", "`KIND` of plugin if the binary serves several: "+registry.KindNames())
	set := f.StringArray("set", nil, "set an option of the plugin by `KEY=VALUE`, such as dataset.options.root=testdata; repeatable")
	quick := f.Bool("quick", false, "test fewer ranks, sizes and samples")
	anyOrder := f.Bool("any-order", false, "accept sums in any order, such as a ring's, if they are equal within rounding")
	timeout := f.Duration("timeout", 10*time.Minute, "give up after this `TIME`")
	call := f.Duration("call-timeout", 30*time.Second, "fail a check if one call takes longer than this `TIME`")
	rules := sandboxFlags(cmd)
	asJSON := f.Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := knownKind(*kind); err != nil {
			return err
		}
		if *timeout <= 0 {
			return cli.Usagef("--timeout %v: give a time such as 10m", *timeout)
		}
		if *call <= 0 {
			return cli.Usagef("--call-timeout %v: give a time such as 30s", *call)
		}
		info, given, _, err := configured(cmd.Context(), p.Host, *kind, args[0], *set, rules)
		if err != nil {
			return err
		}
		info.Options = nil
		r := conformance.Request{Plugin: args[0], Kind: sdk.Kind(info.Kind), Options: given, Sandbox: rules(sdk.Kind(info.Kind), given), Quick: *quick, AnyOrder: *anyOrder, Timeout: *timeout, Call: *call}
		return testPlugin(cmd, info, r, *asJSON)
	}
	return cmd
}

// sandboxFlags adds the flags that select the plugin's sandbox, and returns what they say for a
// plugin with these options, after they have been parsed.
func sandboxFlags(cmd *cobra.Command) func(sdk.Kind, map[string]any) *sandbox.Rules {
	f := cmd.Flags()
	network := f.Bool("network", false, "let a data set reach other hosts, as dataset.network = true does")
	mode := f.String("sandbox", host.DefaultPlugins().Sandbox, "`MODE` of the plugin's sandbox, as plugins.sandbox: auto or off")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if len(host.PluginsConfig{Sandbox: *mode}.Problems()) > 0 {
			return cli.Usagef("--sandbox %q: use auto or off", *mode)
		}
		return nil
	}
	return func(kind sdk.Kind, options map[string]any) *sandbox.Rules {
		return host.PluginsConfig{Sandbox: *mode}.Rules(kind, false, *network, options)
	}
}

// configured finds a plugin and checks the options that --set gives it, with and without
// defaults.
func configured(ctx context.Context, h *host.Host, kind, name string, set []string, rules func(sdk.Kind, map[string]any) *sandbox.Rules) (info pluginInfo, given map[string]any, options sdk.Options, err error) {
	terms := map[host.Key]host.Terms{}
	for _, k := range registry.Kinds {
		terms[host.Key{Kind: k, Plugin: name}] = host.Terms{Sandbox: rules(k, nil)}
	}
	if info, err = findPlugin(ctx, h.WithTerms(terms), kind, name); err != nil {
		return info, nil, nil, err
	}
	if given, err = cli.ParseOptions(info.Kind, set); err != nil {
		return info, nil, nil, err
	}
	options, problems := sdk.CheckOptions(info.Kind+".options", info.published, given)
	return info, given, options, problems.Err()
}

// testPlugin starts this program again as the suite, and prints its report.
func testPlugin(cmd *cobra.Command, info pluginInfo, r conformance.Request, asJSON bool) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	var lines io.Writer
	if !asJSON {
		lines = w
		fmt.Fprintf(w, "%s %s %s\n", info.Kind, r.Plugin, info.Version)
	}
	report, err := conformance.Run(exec.CommandContext(cmd.Context(), exe, "plugins", "suite", r.String()), lines)
	if err != nil {
		return err
	}
	if asJSON {
		err = cli.WriteJSON(w, struct {
			Plugin pluginInfo `json:"plugin"`
			*conformance.Report
		}{info, report})
	} else {
		err = report.Total(w)
	}
	if err == nil && report.Failed > 0 {
		err = cli.Reported(fmt.Errorf("%d checks failed", report.Failed))
	}
	return err
}

// suiteCommand is the hidden command that plugins test starts: package
// testing ends the process that it runs in.
func suiteCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use: "suite REQUEST", Hidden: true, Args: cli.Exactly("REQUEST"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := conformance.Parse(args[0])
			if err != nil {
				return cli.Usagef("%v", err)
			}
			return r.Main(p.Builtins)
		},
	}
}
