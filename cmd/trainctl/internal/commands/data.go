package commands

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/afero"
	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/base/bytesize"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/text"
)

func dataCommand(p *cli.Program) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "data",
		Short: "Prepare data: encode text once",
	}, dataTokenizeCommand(p))
}

func dataTokenizeCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tokenize CONFIG|FILES",
		Short: "Encode text files into one token file",
		Long: `Encode text files into one token file, which the data set "text" maps into memory
instead of encoding text at every start. The files and the tokenizer are those of a
configuration (.toml), or files, folders and patterns with --tokenizer. Beside the token
file, a description (its name and .json) says what its tokens are.`,
		Example: `  trainctl data tokenize books/ notes.txt --tokenizer gpt2/tokenizer.json --out books.bin
  trainctl data tokenize gpt.toml --out corpus.bin`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageOf(cmd, "CONFIG or FILES are missing")
			}
			return nil
		},
	}
	tokenizer := cmd.Flags().String("tokenizer", "", "bytes, chars, or the `PATH` of a tokenizer.json")
	out := cmd.Flags().String("out", "", "write the token file to `FILE`, whose name ends in .bin")
	force := cmd.Flags().Bool("force", false, "replace FILE if it exists")
	show := cli.JSONFlag(cmd, "one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if filepath.Ext(*out) != ".bin" {
			return cli.UsageOf(cmd, "--out FILE.bin is missing")
		}
		if err := cli.Writable(*out, *force); err != nil {
			return err
		}
		files, with, err := textOf(cmd, p, args)
		if err != nil {
			return err
		}
		if *tokenizer != "" {
			with = *tokenizer
		}
		if with == "" {
			return cli.UsageOf(cmd, "--tokenizer is missing: bytes, chars, or the path of a tokenizer.json")
		}
		w, err := text.Tokenize(afero.NewOsFs(), files, with, *out)
		if err != nil {
			return cli.Usagef("%v", err)
		}
		return show(w, func(to io.Writer) error {
			_, err := fmt.Fprintf(to, "%s: %d tokens of %d bytes, vocabulary %d, from %s of text in %d files\n",
				w.Path, w.Tokens, w.TokenBytes, w.Vocabulary, bytesize.Text(w.TextBytes), w.Files)
			return err
		})
	}
	return cmd
}

// textOf returns the files and the tokenizer of a configuration; the tokenizer is empty if the
// arguments are files.
func textOf(cmd *cobra.Command, p *cli.Program, args []string) (files []string, tokenizer string, err error) {
	if len(args) > 1 || filepath.Ext(args[0]) != ".toml" {
		return args, "", nil
	}
	c, err := p.Load(cmd, &cli.ConfigFlags{}, args[0])
	if err != nil {
		return nil, "", err
	}
	info := text.New(afero.NewOsFs()).Info()
	if c.Dataset.Plugin != info.Name {
		return nil, "", cli.Usagef("%s: dataset.plugin is %q, which has no text to encode; fix: give a configuration with dataset.plugin = %q, or files", args[0], c.Dataset.Plugin, info.Name)
	}
	o, problems := sdk.CheckOptions("dataset.options", info.Options, c.Dataset.Options)
	if err := problems.Err(); err != nil {
		return nil, "", err
	}
	return o.Strings("files"), o.String("tokenizer"), nil
}
