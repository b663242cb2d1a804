package main

import (
	"github.com/trainctl/trainctl/core/sdk"
	nccl "github.com/trainctl/trainctl/plugins/backend-nccl"
)

func main() {
	sdk.Serve(sdk.Plugin{Backend: func() sdk.Backend { return nccl.New() }})
}
