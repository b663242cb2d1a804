// Command trainctl-plugin-backend-nccl is the backend plugin "nccl" as a program of its own.
package main

import (
	"github.com/trainctl/trainctl/core/sdk"
	nccl "github.com/trainctl/trainctl/plugins/backend-nccl"
)

func main() {
	sdk.Serve(sdk.Plugin{Backend: func() sdk.Backend { return nccl.New() }})
}
