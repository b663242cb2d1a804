package ckpt

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/base/bytesize"
	"github.com/trainctl/trainctl/core/base/durable"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/infer"
	"github.com/trainctl/trainctl/core/onnx"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// exported says which files a model is exported to.
type exported struct {
	app.Weights
	onnx, folder string
	force        bool
	out          io.Writer
}

func exportCommand(p *cli.Program) *cobra.Command {
	var e exported
	cmd := &cobra.Command{
		Use:   "export CONFIG --checkpoint PATH",
		Short: "Write a trained model for other programs: ONNX, or transformers",
		Long: `Write a trained model for other programs, with the network of a configuration and the
weights of a checkpoint, in float32. --onnx writes an ONNX file (opset 17) with one input, "input",
and one output, "output", whose first dimension is the batch. --huggingface writes a folder that
transformers' from_pretrained reads, for gpt2 and llama. What is there is only replaced with --force.`,
		Example: `  trainctl ckpt export configs/mnist-ddp.toml --checkpoint mnist-ddp --onnx mnist.onnx
  trainctl ckpt export configs/gpt-shakespeare.toml --checkpoint gpt-shakespeare --huggingface gpt/`,
	}
	f := cmd.Flags()
	cli.WeightsFlags(cmd, &e.Weights)
	f.StringVar(&e.onnx, "onnx", "", "write an ONNX file to `FILE`")
	f.StringVar(&e.folder, "huggingface", "", "write config.json and model.safetensors to the folder `DIR`")
	f.BoolVar(&e.force, "force", false, "replace files that exist")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case e.Checkpoint == "":
			return cli.UsageOf(cmd, "--checkpoint PATH is missing")
		case e.onnx == "" && e.folder == "":
			return cli.UsageOf(cmd, "give --onnx FILE or --huggingface DIR")
		}
		if e.folder != "" {
			if err := os.MkdirAll(e.folder, 0o755); err != nil {
				return cli.Usagef("--huggingface: %v", err)
			}
		}
		for _, path := range e.files() {
			if err := cli.Writable(path, e.force); err != nil {
				return err
			}
		}
		e.out = cmd.OutOrStdout()
		return nil
	}
	return p.WithConfig(cmd, func(cmd *cobra.Command, c *config.Config) error {
		m, err := app.LoadModel(cmd.Context(), p.Forecast(c), e.Weights)
		if err != nil {
			return err
		}
		return e.write(c, m)
	})
}

// files are those that will be written.
func (e *exported) files() (all []string) {
	if e.onnx != "" {
		all = append(all, e.onnx)
	}
	if e.folder != "" {
		all = append(all, filepath.Join(e.folder, "config.json"), filepath.Join(e.folder, "model.safetensors"))
	}
	return all
}

func (e *exported) write(c *config.Config, m *infer.Model) error {
	if e.onnx != "" {
		b, err := onnx.Marshal(m.Graph, m.Weights, c.Run.Name, cli.Version())
		if err != nil {
			return cli.Usagef("--onnx: %v", err)
		}
		if err := e.file(e.onnx, m, func(w io.Writer) error { _, err := w.Write(b); return err }); err != nil {
			return err
		}
	}
	if e.folder == "" {
		return nil
	}
	settings, tensors, err := nn.HuggingFace(c.Model, m.Graph, m.Weights)
	if err != nil {
		return cli.Usagef("--huggingface: %v", err)
	}
	return e.transformers(m, settings, tensors)
}

// transformers writes a folder for from_pretrained.
func (e *exported) transformers(m *infer.Model, settings map[string]any, tensors []tensor.Named) error {
	files := e.files()
	err := e.file(files[len(files)-2], m, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(settings)
	})
	if err != nil {
		return err
	}
	return e.file(files[len(files)-1], m, func(w io.Writer) error {
		return safetensors.Write(w, tensors, map[string]string{"format": "pt"})
	})
}

// file writes one file, whole or not at all, and reports it.
func (e *exported) file(path string, m *infer.Model, content func(io.Writer) error) error {
	if err := durable.Write(checkpoint.OsFS(), path, content); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.out, "%s: %s, from %s\n", path, bytesize.Text(int(info.Size())), m.Path)
	return err
}
