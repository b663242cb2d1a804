// Package ddp turns gradients that become ready one by one during backward
// into bucketed all-reduces that run beside it.
package ddp

import (
	"math"

	"github.com/trainctl/trainctl/core/diag"
)

// Config is the table [ddp]. Names are those of DistributedDataParallel.
type Config struct {
	BucketCapMB          float64 `toml:"bucket_cap_mb"`             // a bucket closes once it holds this many MiB
	FirstBucketMB        float64 `toml:"first_bucket_mb"`           // cap of the bucket that is ready first, so that communication starts early; follows bucket_cap_mb when that alone is given
	BroadcastBuffers     bool    `toml:"broadcast_buffers"`         // rank 0's buffers overwrite the others' before every synchronised training step
	FindUnusedParameters bool    `toml:"find_unused_parameters"`    // accepted for migration: the plan is static and knows the unused ones
	SyncBatchNorm        bool    `toml:"sync_batchnorm"`            // batch statistics over all ranks
	Compress             string  `toml:"compress"`                  // "none", "fp16" or "bf16": type in which gradients travel
	PredivideFactor      float64 `toml:"gradient_predivide_factor"` // divides gradients by this before the sum, and by the rest of the world size after it; 0: by the world size before
	Overlap              bool    `toml:"overlap"`                   // launch buckets while backward runs; false: after it
}

// Default is PyTorch's.
func Default() Config {
	return Config{BucketCapMB: 25, FirstBucketMB: 1, BroadcastBuffers: true, Compress: "none", Overlap: true}
}

// Problems checks the table by itself.
func (c Config) Problems() diag.List {
	var l diag.List
	if c.BucketCapMB < 0 {
		l.Addf("bucket_cap_mb", "0 gives one bucket per parameter, 25 is the default", "%v is negative", c.BucketCapMB)
	}
	if c.FirstBucketMB < 0 {
		l.Addf("first_bucket_mb", "1 is the default", "%v is negative", c.FirstBucketMB)
	}
	switch c.Compress {
	case "none", "fp16", "bf16":
	default:
		l.Addf("compress", `use "none", "fp16" or "bf16"`, "unknown compression %q", c.Compress)
	}
	if f := c.PredivideFactor; !(f >= 0) || math.IsInf(f, 0) {
		l.Addf("gradient_predivide_factor", "0 divides by the world size before the sum", "%v cannot divide gradients", f)
	}
	return l
}
