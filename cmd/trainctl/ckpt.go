package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/forecast"
)

func ckptCommand(s *services) *cobra.Command {
	return group(&cobra.Command{
		Use:   "ckpt",
		Short: "List, inspect and verify checkpoints",
	}, ckptListCommand(s), ckptInspectCommand(s), ckptVerifyCommand(s))
}

func ckptListCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls DIR",
		Aliases: []string{"list"},
		Short:   "List the checkpoints of a run, the newest first",
		Example: "  trainctl ckpt ls runs/mnist-ddp/latest",
		Args:    exactly("DIR"),
	}
	asJSON := cmd.Flags().Bool("json", false, "print one JSON array")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if s.Checkpoints.List == nil {
			return absent("ckpt ls")
		}
		list, err := s.Checkpoints.List(args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return writeJSON(cmd.OutOrStdout(), append([]checkpointInfo{}, list...))
		}
		return checkpointTable(cmd.OutOrStdout(), list)
	}
	return cmd
}

func checkpointTable(w io.Writer, list []checkpointInfo) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "STEP\tEPOCH\tSIZE\tMETRICS\tPATH\t")
	for _, c := range list {
		var marks []string
		for _, m := range []struct {
			on   bool
			name string
		}{{c.Latest, "latest"}, {c.Best, "best"}, {c.Problem != "", "unusable: " + c.Problem}} {
			if m.on {
				marks = append(marks, m.name)
			}
		}
		fmt.Fprintf(tw, "%d\t%d\t%s\t%s\t%s\t%s\n", c.Step, c.Epoch, forecast.Bytes(c.Bytes), metrics(c.Metrics), c.Path, strings.Join(marks, ", "))
	}
	return tw.Flush()
}

func metrics(m map[string]float64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s=%.4g", k, m[k]))
	}
	return strings.Join(parts, " ")
}

func ckptInspectCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "inspect PATH",
		Short:   "Describe a checkpoint or safetensors file and its tensors",
		Example: "  trainctl ckpt inspect runs/mnist-ddp/latest/checkpoints/step-938",
		Args:    exactly("PATH"),
	}
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if s.Checkpoints.Inspect == nil {
			return absent("ckpt inspect")
		}
		c, err := s.Checkpoints.Inspect(args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return writeJSON(cmd.OutOrStdout(), c)
		}
		return c.text(cmd.OutOrStdout())
	}
	return cmd
}

func (c checkpointInfo) text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "path\t%s\n", c.Path)
	fmt.Fprintf(tw, "size\t%s\n", forecast.Bytes(c.Bytes))
	if c.Created != "" {
		fmt.Fprintf(tw, "step\t%d, epoch %d\n", c.Step, c.Epoch)
		fmt.Fprintf(tw, "created\t%s by %d ranks\n", c.Created, c.WorldSize)
		fmt.Fprintf(tw, "precision\t%s\n", c.Precision)
		fmt.Fprintf(tw, "dataset\t%s\n", c.Dataset)
		fmt.Fprintf(tw, "metrics\t%s\n", metrics(c.Metrics))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\nTENSOR\tTYPE\tSHAPE\tSIZE")
	for _, t := range c.Tensors {
		fmt.Fprintf(tw, "%s\t%s\t%v\t%s\n", t.Name, t.DType, t.Shape, forecast.Bytes(t.Bytes))
	}
	return tw.Flush()
}

func ckptVerifyCommand(s *services) *cobra.Command {
	return &cobra.Command{
		Use:     "verify PATH",
		Short:   "Read a checkpoint completely and compare every checksum",
		Example: "  trainctl ckpt verify runs/mnist-ddp/latest/checkpoints/step-938",
		Args:    exactly("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.Checkpoints.Verify == nil {
				return absent("ckpt verify")
			}
			if err := s.Checkpoints.Verify(cmd.Context(), args[0]); err != nil {
				return unusable{err}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: intact\n", args[0])
			return err
		},
	}
}

// unusable is a checkpoint that did not pass.
type unusable struct{ error }

func (e unusable) Unwrap() error { return e.error }
func (e unusable) ExitCode() int { return exitCheckpoint }
