package importing

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/base/bytesize"
	"github.com/trainctl/trainctl/core/base/durable"
	"github.com/trainctl/trainctl/core/onnx/importer"
	"github.com/trainctl/trainctl/core/onnx/source"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// request is what to import, and where it goes.
type request struct {
	model, config, weights string
	options                importer.Options
	force                  bool
}

// Command returns "trainctl import".
func Command() *cobra.Command {
	var r request
	cmd := &cobra.Command{
		Use:   "import MODEL.onnx",
		Short: "Make a configuration and weights of a network in the ONNX format",
		Long: `Write a network in the ONNX format (opset 11 or newer) as a TOML file, layer by layer, and its weights
as a safetensors file, from which the TOML file starts. Its data set is a placeholder of the right
shape. If the network has operations that no layer computes, all of them are listed, nothing is
written, and the exit code is 2.`,
		Example: `  trainctl import resnet.onnx
  trainctl import unet.onnx -o unet/unet.toml --weights unet/unet.safetensors --shape 3,256,256`,
		Args: cli.Exactly("MODEL.onnx"),
	}
	f := cmd.Flags()
	f.StringVarP(&r.config, "out", "o", "", "write the configuration to `FILE`; default: MODEL.toml in this directory")
	f.StringVar(&r.weights, "weights", "", "write the weights to `FILE`; default: beside the configuration, with the extension .safetensors")
	f.StringVar(&r.options.Output, "output-name", "", "import the output `NAME` of a network that has several")
	f.IntSliceVar(&r.options.Shape, "shape", nil, "the `SHAPE` of one sample without the batch, such as 3,224,224, where the file leaves it open")
	f.BoolVar(&r.force, "force", false, "replace files that exist")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.model = args[0]
		if err := r.complete(cmd); err != nil {
			return err
		}
		return r.run(cmd.OutOrStdout())
	}
	return cmd
}

// complete sets the paths that were not given, and checks that files may be written there.
func (r *request) complete(cmd *cobra.Command) error {
	for _, n := range r.options.Shape {
		if n < 1 {
			return cli.UsageOf(cmd, "--shape: %d is not a size", n)
		}
	}
	if r.config == "" {
		r.config = strings.TrimSuffix(filepath.Base(r.model), ".onnx") + ".toml"
	}
	if r.weights == "" {
		r.weights = strings.TrimSuffix(r.config, ".toml") + ".safetensors"
	}
	if filepath.Clean(r.weights) == filepath.Clean(r.config) {
		return cli.UsageOf(cmd, "the configuration and the weights cannot both be %s", r.config)
	}
	return errors.Join(cli.Writable(r.config, r.force), cli.Writable(r.weights, r.force))
}

func (r *request) run(out io.Writer) error {
	m, err := source.Open(r.model)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	n, err := importer.Import(m, r.options)
	if err != nil {
		return cli.Usagef("%s: %v", r.model, err)
	}
	summary := fmt.Sprintf("%s (%s): %s", r.model, importer.Describe(m), n.Summary())
	notes := []string{"Imported from " + summary + "."}
	for _, note := range n.Notes {
		notes = append(notes, "Note: "+note+".")
	}
	name := strings.TrimSuffix(filepath.Base(r.config), ".toml")
	toml := app.ImportedConfig(n, name, r.weights, notes...)
	err = durable.Write(checkpoint.OsFS(), r.weights, func(w io.Writer) error {
		return safetensors.Write(w, n.Weights, map[string]string{"format": "pt"})
	})
	if err == nil {
		err = durable.Replace(checkpoint.OsFS(), r.config, toml)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(r.weights)
	if err != nil {
		return err
	}
	for _, note := range n.Notes {
		summary += "\nnote: " + note
	}
	_, err = fmt.Fprintf(out, "%s\n%s: %s of weights, which %s starts from\n", summary, r.weights, bytesize.Text(int(info.Size())), r.config)
	return err
}
