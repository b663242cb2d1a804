package ddp

import (
	"math"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Config is the table [ddp]. Names are those of DistributedDataParallel.
type Config struct {
	BucketCapMB          Cap     `toml:"bucket_cap_mb"`                            // a bucket closes once it holds this many MiB; "auto": as the time of a step and the cost of messages suggest
	FirstBucketMB        float64 `toml:"first_bucket_mb"`                          // cap of the bucket that is ready first, so that communication starts early; follows bucket_cap_mb when that alone is given
	BroadcastBuffers     bool    `toml:"broadcast_buffers"`                        // rank 0's buffers overwrite the others' before every synchronised training step
	FindUnusedParameters bool    `toml:"find_unused_parameters"`                   // parameters may take no part in a step, in branches that layerdrop leaves out: ranks agree on which
	Uneven               string  `toml:"uneven" words:"error,stop,join"`           // when ranks run out of batches at different times: "error"; "stop" the epoch at the first; "join": go on without them
	DivideByInitial      bool    `toml:"divide_by_initial_world_size"`             // join: average over all ranks, also over those that have run out
	SyncBatchNorm        bool    `toml:"sync_batchnorm"`                           // batch statistics over all ranks
	Compress             string  `toml:"compress" words:"none,fp16,bf16,powersgd"` // "none", "fp16", "bf16": type in which gradients travel; "powersgd": as factors of low rank
	PowerSGDRank         int     `toml:"powersgd_rank"`                            // of the factors; more is more exact and larger
	PowerSGDStart        int     `toml:"powersgd_start_step"`                      // gradients travel whole for this many steps first
	PredivideFactor      float64 `toml:"gradient_predivide_factor"`                // divides gradients by this before the sum, and by the rest of the world size after it; 0: by the world size before
	Shard                string  `toml:"shard" words:"none,optimizer"`             // "optimizer": each rank keeps and updates an equal part of the optimizer's state and master weights (ZeRO stage 1)
	Overlap              bool    `toml:"overlap"`                                  // launch buckets while backward runs; false: after it
	SyncEvery            int     `toml:"sync_every"`                               // 1: ranks average gradients in every step; more: each trains on its own, and they average weights after so many steps (local SGD)
	Outer                string  `toml:"outer" words:"none,nesterov"`              // what makes the next weights of the averages: "none", or "nesterov" momentum (DiLoCo)
	OuterLR              float64 `toml:"outer_lr"`                                 // of the outer optimizer
	OuterMomentum        float64 `toml:"outer_momentum"`                           // of the outer optimizer
}

// Values of [Config].Uneven.
const (
	UnevenError = "error"
	UnevenStop  = "stop"
	UnevenJoin  = "join"
)

// Values of [Config].Shard.
const (
	ShardNone      = "none"
	ShardOptimizer = "optimizer"
)

// Values of [Config].Outer.
const (
	OuterNone     = "none"
	OuterNesterov = "nesterov"
)

// Local reports whether each rank trains on its own between averages of the weights.
func (c Config) Local() bool { return c.SyncEvery > 1 }

// Sharded reports whether the ranks of a job divide the optimizer's state.
func (c Config) Sharded(world int) bool { return c.Shard == ShardOptimizer && world > 1 }

// Default returns PyTorch's defaults.
func Default() Config {
	return Config{BucketCapMB: 25, FirstBucketMB: 1, BroadcastBuffers: true, Uneven: UnevenError, DivideByInitial: true, Compress: "none", PowerSGDRank: 1, PowerSGDStart: 1000, Shard: ShardNone, Overlap: true, SyncEvery: 1, Outer: OuterNone, OuterLR: 0.7, OuterMomentum: 0.9}
}

// Problems checks the table by itself.
func (c Config) Problems() usererr.List {
	var l usererr.List
	if c.BucketCapMB < 0 {
		l.Addf("bucket_cap_mb", `0 gives one bucket per parameter, 25 is the default, "auto" measures`, "%v is negative", c.BucketCapMB)
	}
	if c.FirstBucketMB < 0 {
		l.Addf("first_bucket_mb", "1 is the default", "%v is negative", c.FirstBucketMB)
	}
	switch c.Uneven {
	case UnevenError, UnevenStop, UnevenJoin:
	default:
		l.Addf("uneven", `use "error", "stop" or "join"`, "unknown value %q for uneven inputs", c.Uneven)
	}
	if !c.DivideByInitial && c.Uneven != UnevenJoin {
		l.Addf("divide_by_initial_world_size", `set uneven = "join", or remove it`, "without join all ranks have a batch in every step")
	}
	switch c.Compress {
	case "none", "fp16", "bf16":
	case "powersgd":
		if c.PredivideFactor != 0 {
			l.Addf("gradient_predivide_factor", "remove it", "PowerSGD averages its low-rank factors without a predivide factor")
		}
	default:
		l.Addf("compress", `use "none", "fp16", "bf16" or "powersgd"`, "unknown compression %q", c.Compress)
	}
	if c.Shard != "" && c.Shard != ShardNone && c.Shard != ShardOptimizer {
		l.Addf("shard", `use "none" or "optimizer"`, "unknown value %q", c.Shard)
	}
	if c.PowerSGDRank < 1 {
		l.Addf("powersgd_rank", "1 is the default", "%d is less than 1", c.PowerSGDRank)
	}
	if c.PowerSGDStart < 0 {
		l.Addf("powersgd_start_step", "1000 is the default", "%d is negative", c.PowerSGDStart)
	}
	c.localProblems(&l)
	if f := c.PredivideFactor; !(f >= 0) || math.IsInf(f, 0) {
		l.Addf("gradient_predivide_factor", "0 divides by the world size before the sum", "%v is not a valid divisor", f)
	}
	return l
}

// localProblems checks what concerns averages of weights.
func (c Config) localProblems(l *usererr.List) {
	if c.SyncEvery < 1 {
		l.Addf("sync_every", "1 averages gradients in every step", "%d is less than 1", c.SyncEvery)
	}
	if c.Outer != "" && c.Outer != OuterNone && c.Outer != OuterNesterov {
		l.Addf("outer", `use "none" or "nesterov"`, "unknown optimizer %q", c.Outer)
	}
	if !(c.OuterLR > 0) || math.IsInf(c.OuterLR, 0) {
		l.Addf("outer_lr", "0.7 is the default", "%v is not a learning rate above 0", c.OuterLR)
	}
	if !(c.OuterMomentum >= 0 && c.OuterMomentum < 1) {
		l.Addf("outer_momentum", "0.9 is the default", "%v is not between 0 and 1", c.OuterMomentum)
	}
	if c.Outer == OuterNesterov && c.SyncEvery == 1 {
		l.Addf("sync_every", `set it to a larger number, such as 100, or outer to "none"`, "outer = %q works on averages of weights, and with 1 there are none", c.Outer)
	}
	if !c.Local() {
		return
	}
	refuse := func(wrong bool, key, help, why string) {
		if wrong {
			l.Addf(key, help, "%s (sync_every)", why)
		}
	}
	refuse(c.Uneven != UnevenError, "uneven", "remove it", "ranks do not tell each other between averages how many batches they have")
	refuse(c.FindUnusedParameters, "find_unused_parameters", "remove it, and layerdrop", "ranks do not tell each other between averages which parameters they used")
	refuse(c.SyncBatchNorm, "sync_batchnorm", "remove it", "batch statistics of all ranks would need messages in every step")
	refuse(c.Compress != "none", "compress", `set it to "none"`, "no gradients are sent")
	refuse(c.PredivideFactor != 0, "gradient_predivide_factor", "remove it", "no gradients are sent")
	refuse(c.Shard == ShardOptimizer, "shard", `set it to "none"`, "each rank updates all of its own weights")
}
