package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/commands"
)

// docs/cli.md has every command with every flag, and no other command.
func TestDocumentedCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	shared, _, _ := strings.Cut(string(text), "\n## ")
	sections := map[string]string{}
	for _, s := range strings.Split(string(text), "\n### ")[1:] {
		usage, body, _ := strings.Cut(s, "\n")
		sections[usage] = body
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		if cmd.Hidden || cmd.HasSubCommands() || cmd.Name() == "help" {
			return
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		usage, _, _ := strings.Cut(strings.TrimPrefix(cmd.UseLine(), "trainctl "), " --")
		usage = strings.TrimSuffix(usage, " [flags]")
		body, ok := sections[usage]
		if !ok {
			t.Errorf("docs/cli.md has no section %q", usage)
		}
		delete(sections, usage)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			flag := regexp.MustCompile("--" + f.Name + `\b`)
			takesConfig := strings.Contains(usage+" ", " CONFIG ")
			if f.Name != "help" && !flag.MatchString(body) && !(takesConfig && flag.MatchString(shared)) {
				t.Errorf("docs/cli.md: section %q lacks --%s", usage, f.Name)
			}
		})
	}
	walk(commands.Root(new(cli.Program)))
	for usage := range sections {
		t.Errorf("docs/cli.md describes %q, which is not a command", usage)
	}
}
