package ckpt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// Command returns trainctl ckpt.
func Command(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ckpt",
		Short: "List, inspect, verify, compare, convert and export checkpoints",
		Long: `List, inspect, verify, compare and convert checkpoints. RUN is as in trainctl
logs: a run's directory, its name (the newest run of that name), name and number
(mnist-ddp/3), or latest.`,
	}
	base := cmd.PersistentFlags().String("run-dir", cli.DefaultRuns, "look for runs in `DIR`")
	return cli.Group(cmd, listCommand(base), inspectCommand(base), verifyCommand(base), diffCommand(base), convertCommand(base), exportCommand(p))
}

func listCommand(base *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls RUN",
		Aliases: []string{"list"},
		Short:   "List the checkpoints of a run, newest first",
		Example: "  trainctl ckpt ls mnist-ddp\n  trainctl ckpt ls runs/mnist-ddp/3",
		Args:    cli.Exactly("RUN"),
	}
	show := cli.JSONFlag(cmd, "one JSON array")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := findCheckpoints(*base, args[0])
		if err != nil {
			return err
		}
		list, err := listCheckpoints(dir)
		if err != nil {
			return err
		}
		views := make([]view, len(list))
		for i, info := range list {
			views[i] = viewOf(info, list)
		}
		return show(views, func(w io.Writer) error {
			if len(views) == 0 {
				_, err := fmt.Fprintf(cmd.ErrOrStderr(), "%s: no checkpoint\n", dir)
				return err
			}
			return checkpointTable(w, views)
		})
	}
	return cmd
}

func inspectCommand(base *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "inspect PATH",
		Short:   "Describe a checkpoint or safetensors file and its tensors",
		Long:    "Describe a checkpoint, the newest one of a run, or a safetensors file, and its tensors.",
		Example: "  trainctl ckpt inspect runs/mnist-ddp/latest/checkpoints/step-938",
		Args:    cli.Exactly("PATH"),
	}
	show := cli.JSONFlag(cmd, "one JSON object")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		v, err := inspected(*base, args[0])
		if err != nil {
			return err
		}
		return show(v, v.text)
	}
	return cmd
}

// inspected describes the checkpoint or file at a path, or the newest checkpoint of a run.
func inspected(base, arg string) (view, error) {
	paths, err := checkpointsAt(base, arg)
	if err != nil {
		return view{}, err
	}
	info, err := checkpoint.Inspect(checkpoint.OsFS(), paths[0])
	if err != nil {
		return view{}, judged(paths[0], err)
	}
	return viewOf(info, nil), nil
}

func verifyCommand(base *string) *cobra.Command {
	return &cobra.Command{
		Use:   "verify PATH",
		Short: "Read checkpoints completely and compare every checksum",
		Long: `Read a checkpoint, or all checkpoints of a run, completely and compare every
checksum. A bare safetensors file has no checksums: only its structure is checked.`,
		Example: "  trainctl ckpt verify runs/mnist-ddp/latest",
		Args:    cli.Exactly("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := checkpointsAt(*base, args[0])
			if err != nil {
				return err
			}
			var bad []error
			for _, p := range paths {
				if err := checkpoint.Verify(cmd.Context(), checkpoint.OsFS(), p); err != nil {
					bad = append(bad, judged(p, err))
					continue
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: intact\n", p); err != nil {
					return err
				}
			}
			return errors.Join(bad...)
		},
	}
}

// findCheckpoints returns the path for an argument that is a run or a path.
func findCheckpoints(base, arg string) (string, error) {
	path, err := event.FindCheckpoints(checkpoint.OsFS(), base, arg)
	if errors.As(err, new(*event.AmbiguousError)) {
		return "", cli.Usagef("%v", err)
	}
	if errors.Is(err, fs.ErrNotExist) && checkpoint.Find(checkpoint.OsFS(), arg) != nil {
		return "", cli.Usagef("%s: no such file or directory, and %v", arg, err)
	}
	return path, nil
}

// checkpointsAt lists the paths for an argument: a checkpoint or file itself, or
// every checkpoint of a run, newest first. There is at least one.
func checkpointsAt(base, arg string) ([]string, error) {
	path, err := findCheckpoints(base, arg)
	if err != nil {
		return nil, err
	}
	fsys := checkpoint.OsFS()
	if _, err := fsys.Stat(filepath.Join(path, checkpoint.ManifestFile)); err == nil || !cli.IsDir(fsys, path) {
		return []string{path}, nil
	}
	list, err := listCheckpoints(path)
	if err == nil && len(list) == 0 {
		err = judged(path, checkpoint.ErrNone)
	}
	var paths []string
	for _, c := range list {
		paths = append(paths, c.Path)
	}
	return paths, err
}

// listCheckpoints lists a directory of checkpoints, or a run's.
func listCheckpoints(dir string) ([]checkpoint.Info, error) {
	fsys := checkpoint.OsFS()
	if inner := filepath.Join(dir, "checkpoints"); cli.IsDir(fsys, inner) {
		dir = inner
	} else if !cli.IsDir(fsys, dir) {
		if err := checkpoint.Find(fsys, dir); errors.As(err, new(*safetensors.PickleError)) {
			return nil, err
		}
		return nil, cli.Usagef("%s is not a directory; fix: give the directory of a run or of its checkpoints", dir)
	}
	return checkpoint.List(fsys, dir)
}

// judged distinguishes a mistyped path from a checkpoint that cannot be used.
func judged(path string, err error) error {
	if _, statErr := checkpoint.OsFS().Stat(path); errors.Is(statErr, fs.ErrNotExist) {
		return cli.Usagef("%v", statErr)
	}
	return unusable(fmt.Errorf("%s: %w%s", path, err, checkpoint.Skip{Path: path, Reason: err}.Fix()))
}

// unusable is the error of a checkpoint that did not pass.
func unusable(err error) error { return cli.WithCode(err, launch.ExitCheckpoint) }
