// Package checkpoint saves runs so that a crash at any instant leaves
// something to continue from, and loads them so that the continued run is the
// uninterrupted one, bit for bit. FORMAT.md beside this file describes the bytes.
//
// One process of a job, rank 0, opens a Store and saves; every rank may Load.
//
//	store, err := checkpoint.Open(fsys, run.Checkpoints(), cfg)
//	path, err := store.Save(ctx, &snapshot)       // the snapshot is free again
//	err = store.Close()                           // waits for the last write
//	snap, report, err := checkpoint.Load(ctx, fsys, "runs/x/1/checkpoints")
//	note, err := checkpoint.Fill(model, snap.Model)
//
// A checkpoint is written into a directory under a temporary name; its files
// are made durable, then the directory, then it is renamed, then the parent is
// made durable, then latest is replaced. Only then are old ones removed.
//
// It imports core/base, core/engine/kernel and core/tensor. Start with
// store.go.
package checkpoint
