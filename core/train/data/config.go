package data

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Config is the table [sampler]: torch.utils.data.DistributedSampler.
type Config struct {
	Shuffle  bool    `toml:"shuffle"`                 // another order every epoch, from seed + epoch
	DropLast bool    `toml:"drop_last"`               // cut the tail that does not divide by the world size, instead of repeating from the head
	Pad      string  `toml:"pad" words:"repeat,none"` // what fills the tail up without drop_last: "repeat" from the head, or "none": some ranks have a sample less
	Seed     *uint64 `toml:"seed"`                    // default: [run] seed
	Prefetch int     `toml:"prefetch"`                // batches read ahead, 1 to MaxPrefetch
}

// MaxPrefetch is the maximum number of prefetched batches: together with the one in
// use, they need all slots of a data set's plugin.
const MaxPrefetch = 63

// Values of [Config].Pad.
const (
	PadRepeat = "repeat"
	PadNone   = "none"
)

// Default shuffles, pads and reads two batches ahead.
func Default() Config { return Config{Shuffle: true, Pad: PadRepeat, Prefetch: 2} }

// SeedOr is the seed of the order: the table's own, or that of the run.
func (c Config) SeedOr(run uint64) uint64 {
	if c.Seed != nil {
		return *c.Seed
	}
	return run
}

// Problems checks the table by itself.
func (c Config) Problems() usererr.List {
	var l usererr.List
	if c.Prefetch < 1 {
		l.Addf("prefetch", "the default is 2, the minimum is 1", "%d is too small", c.Prefetch)
	}
	if c.Prefetch > MaxPrefetch {
		l.Addf("prefetch", fmt.Sprintf("the default is 2, the maximum is %d", MaxPrefetch), "%d is too large", c.Prefetch)
	}
	if c.Pad != PadRepeat && c.Pad != PadNone {
		l.Addf("pad", `use "repeat" or "none"`, "unknown padding %q", c.Pad)
	}
	if c.DropLast && c.Pad == PadNone {
		l.Addf("pad", "remove one of the two", "drop_last drops the tail, so pad has no effect")
	}
	return l
}
