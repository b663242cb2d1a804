package ckpt

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/base/bytesize"
	"github.com/trainctl/trainctl/core/base/durable"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

func convertCommand(base *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "convert SRC DST",
		Short: "Write a checkpoint's weights as one safetensors file",
		Long: `Write the model of SRC to the safetensors file DST, for PyTorch or for model.init.
SRC is a checkpoint, a run (its newest checkpoint) or a safetensors file. The prefix
that a checkpoint's names were saved with is removed. With --dtype, floating-point
tensors are rounded to nearest even; others do not change. DST is written atomically,
and an existing file is only replaced with --force.`,
		Example: `  trainctl ckpt convert runs/mnist-ddp/latest model.safetensors
  trainctl ckpt convert ddp.safetensors plain.safetensors --prefix strip --dtype bf16`,
		Args: cli.Exactly("SRC", "DST"),
	}
	f := cmd.Flags()
	prefix := f.String("prefix", "", "`add` \"module.\" to all names, or strip it from them")
	dtype := f.String("dtype", "", "round floating-point tensors to `TYPE`: f32, f64, f16 or bf16")
	force := f.Bool("force", false, "replace DST if it exists")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *prefix != "" && *prefix != "add" && *prefix != "strip" {
			return cli.Usagef("--prefix %q: use add or strip", *prefix)
		}
		to, err := floatType(*dtype)
		if err != nil {
			return err
		}
		if err := cli.Writable(args[1], *force); err != nil {
			return err
		}
		src := args[0]
		l, err := loadCheckpoint(cmd.Context(), *base, &src)
		if err != nil {
			return err
		}
		if *prefix != "" {
			if l.Model, err = checkpoint.Rename(l.Model, *prefix == "add"); err != nil {
				return unusable(fmt.Errorf("%s: %w", src, err))
			}
		}
		if to != tensor.Invalid {
			for _, note := range cast(l.Model, to) {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+note)
			}
		}
		return l.writeTo(args[1], src, cmd.OutOrStdout())
	}
	return cmd
}

func floatType(name string) (tensor.DType, error) {
	if name == "" {
		return tensor.Invalid, nil
	}
	d, err := tensor.ParseDType(name)
	if err != nil || !d.Float() {
		return d, cli.Usagef("--dtype %q: use f32, f64, f16 or bf16", name)
	}
	return d, nil
}

// cast rounds the floating-point tensors and returns notes on values that became infinite.
func cast(model []tensor.Named, to tensor.DType) (notes []string) {
	for i := range model {
		t := &model[i]
		if !t.DType.Float() {
			continue
		}
		out, overflowed, err := checkpoint.Cast(t.Tensor, to)
		if err != nil {
			panic(err) // both are floating-point types
		}
		if overflowed > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d of %d values are too large for %v and became infinite", t.Name, overflowed, t.Shape.Elems(), to))
		}
		t.Tensor = out
	}
	return notes
}

func (l loaded) writeTo(dst, src string, out io.Writer) error {
	metadata := map[string]string{}
	for k, v := range l.metadata {
		metadata[k] = v
	}
	metadata["format"] = "pt"
	err := durable.Write(checkpoint.OsFS(), dst, func(w io.Writer) error {
		return safetensors.Write(w, l.Model, metadata)
	})
	if err != nil {
		return err
	}
	bytes := 0
	for _, t := range l.Model {
		bytes += len(t.Data)
	}
	_, err = fmt.Fprintf(out, "%s: %d tensors, %s, from %s\n", dst, len(l.Model), bytesize.Text(bytes), src)
	return err
}
