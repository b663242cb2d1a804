package config

import (
	"fmt"
	"strconv"
	"time"
)

// LaunchConfig is the table [launch].
type LaunchConfig struct {
	NprocPerNode   Count         `toml:"nproc_per_node"`   // ranks on this machine, or "auto"
	Nnodes         Count         `toml:"nnodes"`           // machines
	NodeRank       int           `toml:"node_rank"`        // of this machine, from 0
	RdzvEndpoint   string        `toml:"rdzv_endpoint"`    // host:port where machines meet
	MaxRestarts    int           `toml:"max_restarts"`     // restarts of the whole group after a failure
	ThreadsPerRank Count         `toml:"threads_per_rank"` // CPU threads of a rank, or "auto"
	Grace          time.Duration `toml:"grace"`            // to save and drain after a signal
}

// Count is a number, or a word that stands for one.
type Count string

// Int is the number, 0 when it is none.
func (c Count) Int() int {
	n, _ := strconv.Atoi(string(c)) // "auto" is 0
	return n
}

// UnmarshalTOML reads 2 or "auto".
func (c *Count) UnmarshalTOML(v any) error {
	*c = Count(fmt.Sprint(v))
	return nil
}

// MarshalText is what UnmarshalTOML takes.
func (c Count) MarshalText() ([]byte, error) { return []byte(c), nil }

func defaultLaunch() LaunchConfig {
	return LaunchConfig{NprocPerNode: "auto", Nnodes: "1", ThreadsPerRank: "auto", Grace: 5 * time.Second}
}
