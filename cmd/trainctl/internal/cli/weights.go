package cli

import (
	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/app"
)

// WeightsFlags adds the flags that say which weights a command uses.
func WeightsFlags(cmd *cobra.Command, w *app.Weights) {
	cmd.Flags().StringVar(&w.Checkpoint, "checkpoint", "", "checkpoint, run or safetensors file at `PATH`")
	cmd.Flags().BoolVar(&w.Average, "ema", false, "use the checkpoint's moving averages of weights (optimizer.ema_decay)")
}
