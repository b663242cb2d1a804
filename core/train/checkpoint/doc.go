// Package checkpoint saves runs so that a crash at any time leaves a usable
// checkpoint, and loads them so that the continued run is bitwise identical to an
// uninterrupted one. FORMAT.md in this folder describes the file format.
//
// One process of a job, rank 0, opens a Store and saves; every rank may Load.
//
//	store, err := checkpoint.Open(fsys, run.Checkpoints(), cfg)
//	path, err := store.Save(ctx, &snapshot)       // snapshot may be reused
//	err = store.Close()                           // waits for the last write
//	snap, report, err := checkpoint.Load(ctx, fsys, "runs/x/1/checkpoints")
//	note, err := checkpoint.Fill(model, snap.Model)
//
// A checkpoint is written into a directory with a temporary name. Its files are
// synced, then the directory; then it is renamed, the parent is synced, and latest is
// replaced. Only then are old checkpoints removed.
//
// It imports core/base, core/engine/kernel, core/tensor and
// core/train/checkpoint/safetensors. Start with store.go.
package checkpoint
