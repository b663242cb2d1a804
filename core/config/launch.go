package config

import (
	"fmt"
	"strconv"
)

// LaunchConfig is the table [launch].
type LaunchConfig struct {
	NProcPerNode   Count `toml:"nproc_per_node"`   // ranks on this machine, or "auto"
	NNodes         Count `toml:"nnodes"`           // machines, or "MIN:MAX"
	MaxRestarts    int   `toml:"max_restarts"`     // restarts of the whole group after a failure
	ThreadsPerRank Count `toml:"threads_per_rank"` // CPU threads of a rank, or "auto"
}

// Count is a number, or a word that stands for one.
type Count string

// UnmarshalTOML reads 2 or "auto".
func (c *Count) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case int64:
		*c = Count(strconv.FormatInt(v, 10))
	case string:
		*c = Count(v)
	default:
		return fmt.Errorf("want a number or a string, got %v", v)
	}
	return nil
}

func defaultLaunch() LaunchConfig {
	return LaunchConfig{NProcPerNode: "auto", NNodes: "1", ThreadsPerRank: "auto"}
}
