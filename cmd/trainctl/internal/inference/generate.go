package inference

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/infer"
)

// generateFlags are the flags of generate.
type generateFlags struct {
	app.GenerateOptions
	promptFile string
}

// Generate is the command that continues a prompt.
func Generate(p *cli.Program) *cobra.Command {
	f := &generateFlags{}
	cmd := &cobra.Command{
		Use:   "generate CONFIG --checkpoint PATH --prompt TEXT",
		Short: "Generate text with a trained language model",
		Long: `Generate text with a trained language model, token by token, on standard output. The
prompt itself is not repeated. The configuration says which model and tokenizer it is; the
checkpoint has the weights. Keys and values of earlier tokens are kept, so that a token costs
one pass over the weights. The same seed gives the same text on one machine.`,
		Example: `  trainctl generate configs/gpt-shakespeare.toml --checkpoint gpt-shakespeare --prompt "ROMEO:" --max-tokens 50
  trainctl generate gpt2.toml --checkpoint gpt2/ --prompt-file question.txt --temperature 0.8 --top-k 50 --stop "\n\n"
  echo "Once upon a time" | trainctl generate gpt2.toml --checkpoint gpt2/ --prompt-file - --temperature 0`,
	}
	flags := cmd.Flags()
	cli.WeightsFlags(cmd, &f.Weights)
	flags.StringVar(&f.Prompt, "prompt", "", "text to continue; \\n is a new line")
	flags.StringVar(&f.promptFile, "prompt-file", "", "read the prompt from `FILE`; - is standard input")
	flags.Float64Var(&f.Temperature, "temperature", 1, "divide logits by `T`; below 1 likely tokens get likelier, 0 always takes the likeliest")
	flags.IntVar(&f.TopK, "top-k", 0, "draw among the `K` likeliest tokens; 0: all")
	flags.Float64Var(&f.TopP, "top-p", 1, "draw among the fewest tokens whose probabilities add up to `P`")
	flags.Uint64Var(&f.Seed, "seed", 0, "seed `N` of the draws")
	flags.IntVar(&f.Most, "max-tokens", 256, "generate at most `N` tokens")
	flags.StringArrayVar(&f.Stops, "stop", nil, "end before `TEXT`; \\n is a new line; repeatable")
	flags.BoolVar(&f.Slide, "slide", false, "when the model's context is full, go on with the later half of it (a sliding window)")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return f.check(cmd) }
	return p.WithConfig(cmd, func(cmd *cobra.Command, c *config.Config) error {
		f.ForecastOptions = p.Forecast(c)
		return f.run(cmd)
	})
}

// check finds what is wrong with the flags, and reads the prompt.
func (f *generateFlags) check(cmd *cobra.Command) error {
	prompted, read := cmd.Flags().Changed("prompt"), f.promptFile != ""
	switch {
	case f.Checkpoint == "":
		return cli.UsageOf(cmd, "--checkpoint PATH is missing")
	case prompted == read:
		return cli.UsageOf(cmd, "give --prompt TEXT or --prompt-file FILE")
	case !(f.Temperature >= 0):
		return cli.UsageOf(cmd, "--temperature %v is below 0", f.Temperature)
	case f.TopK < 0:
		return cli.UsageOf(cmd, "--top-k %d is below 0", f.TopK)
	case !(f.TopP > 0 && f.TopP <= 1):
		return cli.UsageOf(cmd, "--top-p %v is not above 0 and up to 1", f.TopP)
	case f.Most < 1:
		return cli.UsageOf(cmd, "--max-tokens %d is below 1", f.Most)
	}
	for i, s := range f.Stops {
		if f.Stops[i] = unescape(s); s == "" {
			return cli.UsageOf(cmd, "--stop is empty")
		}
	}
	f.Prompt = unescape(f.Prompt)
	if !read {
		return nil
	}
	text, err := readPrompt(cmd.InOrStdin(), f.promptFile)
	if err != nil {
		return cli.UsageOf(cmd, "--prompt-file: %v", err)
	}
	f.Prompt = text
	return nil
}

// unescape turns \n into a newline: shells pass it on as it is.
func unescape(s string) string { return strings.ReplaceAll(s, `\n`, "\n") }

func readPrompt(stdin io.Reader, path string) (string, error) {
	if path != "-" {
		b, err := os.ReadFile(path)
		return string(b), err
	}
	b, err := io.ReadAll(stdin)
	return string(b), err
}

func (f *generateFlags) run(cmd *cobra.Command) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	done, err := app.Generate(ctx, f.GenerateOptions, cmd.OutOrStdout())
	if done.Tokens > 0 {
		_, _ = fmt.Fprintln(cmd.OutOrStdout()) // a reader that has gone was reported already
	}
	if errors.Is(err, context.Canceled) {
		return cli.Reported(interrupted{})
	}
	if err != nil {
		return err
	}
	report(cmd.ErrOrStderr(), f, done)
	if done.Reason == infer.Broken {
		return cli.Reported(interrupted{})
	}
	return nil
}

// report says why the text ends, and how fast it came.
func report(w io.Writer, f *generateFlags, done infer.Generated) {
	why := string(done.Reason)
	if done.Reason == infer.Full {
		why = "the model's context is full; fix: shorten the prompt, or use --slide, which continues with the second half of the context"
	}
	fmt.Fprintf(w, "%d tokens after a prompt of %d (%.2g s), %.3g tokens/s; ended: %s\n",
		done.Tokens, done.Prompt, done.First.Seconds(), float64(done.Tokens)/max(done.Took.Seconds(), 1e-9), why)
}

// interrupted is the end by Ctrl-C; what was generated has been written.
type interrupted struct{}

func (interrupted) Error() string { return "interrupted" }

// ExitCode is that of a program that SIGINT ends.
func (interrupted) ExitCode() int { return 130 }
