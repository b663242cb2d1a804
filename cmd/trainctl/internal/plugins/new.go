package plugins

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"
	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/scaffold"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
)

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new KIND DIR",
		Short: "Create a working plugin as a starting point",
		Long: `Write a plugin of KIND (` + registry.KindNames() + `) to DIR, which
must be new or empty: a Go module, or with --lang python a script. It passes the
conformance suite; replace its small example with your own code.`,
		Example: `  trainctl plugins new dataset ./mydata
  trainctl plugins new dataset ./mydata --lang python
  trainctl plugins new backend ./fabric --module example.org/fabric --replace ~/src/trainctl`,
		Args: cli.Exactly("KIND", "DIR"),
	}
	f := cmd.Flags()
	name := f.String("name", "", "name the plugin `NAME`; default: the name of the folder")
	module := f.String("module", "", "set the path of the Go module to `PATH`; default: example.com/trainctl-plugin-NAME")
	lang := f.String("lang", "go", "write it in `LANGUAGE`: go or python")
	replace := f.String("replace", "", "build against the source of trainctl in `DIR` instead of a released version")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s := scaffold.Plugin{Kind: args[0], Dir: filepath.Clean(args[1]), Name: *name, Module: *module, Lang: *lang}
		files, err := s.Create(afero.NewOsFs(), cli.Version(), *replace)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s plugin in %d files\nnext:\n  cd %s\n  %s\n", s.Dir, sdk.Kind(s.Kind).Phrase(), files, s.Dir, strings.Join(s.Next(), "\n  "))
		return err
	}
	return cmd
}
