package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/trainctl/trainctl/core/checkpoint"
)

// checkpointServices are ckpt over the file system of the machine.
func checkpointServices() checkpoints {
	fs := checkpoint.OsFS()
	return checkpoints{
		List: func(dir string) ([]checkpointInfo, error) {
			list, err := checkpoint.List(fs, checkpointsIn(fs, dir))
			out := make([]checkpointInfo, len(list))
			for i, c := range list {
				out[i] = describeCheckpoint(c)
			}
			return out, err
		},
		Inspect: func(path string) (checkpointInfo, error) {
			c, err := checkpoint.Inspect(fs, path)
			if err != nil {
				return checkpointInfo{}, err
			}
			info := describeCheckpoint(c)
			for _, t := range c.Model {
				info.Tensors = append(info.Tensors, tensorInfo{
					Name: t.Name, DType: t.DType.String(), Shape: append([]int{}, t.Shape...), Bytes: int64(t.Spec.Bytes()),
				})
			}
			return info, nil
		},
		Verify: func(ctx context.Context, path string) error { return checkpoint.Verify(ctx, fs, path) },
	}
}

// checkpointsIn lets a run directory stand for the checkpoints in it.
func checkpointsIn(fs checkpoint.FS, dir string) string {
	inner := filepath.Join(dir, "checkpoints")
	if info, err := fs.Stat(inner); err == nil && info.IsDir() {
		return inner
	}
	return dir
}

func describeCheckpoint(c checkpoint.Info) checkpointInfo {
	m := c.Manifest
	info := checkpointInfo{
		Path: c.Path, Step: m.Step, Epoch: m.Epoch, Bytes: c.Bytes, Latest: c.Latest,
		Best: m.Best != nil && m.Best.Step == m.Step, WorldSize: m.WorldSize, Precision: m.Precision, Dataset: m.Dataset.Plugin,
		Metrics: map[string]float64{},
	}
	if m.Dataset.Source != "" {
		info.Dataset += " (" + m.Dataset.Source + ")"
	}
	if !m.CreatedAt.IsZero() {
		info.Created = m.CreatedAt.Format(time.RFC3339)
	}
	for k, v := range m.Metrics {
		info.Metrics[k] = float64(v)
	}
	if c.Err != nil {
		info.Problem = c.Err.Error()
	}
	return info
}
