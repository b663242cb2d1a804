// Package ckpt has the commands of trainctl ckpt, which list, describe, verify, compare
// and convert checkpoints.
//
// It imports cmd/trainctl/internal and core. Start with ckpt.go.
package ckpt
