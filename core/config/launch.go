package config

// LaunchConfig is the table [launch].
type LaunchConfig struct {
	NProcPerNode   string `toml:"nproc_per_node"`
	NNodes         string `toml:"nnodes"`
	MaxRestarts    int    `toml:"max_restarts"`
	ThreadsPerRank string `toml:"threads_per_rank"`
}

func defaultLaunch() LaunchConfig {
	return LaunchConfig{NProcPerNode: "auto", NNodes: "1", ThreadsPerRank: "auto"}
}
