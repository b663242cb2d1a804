package main

import (
	"github.com/trainctl/trainctl/core/sdk"
	mpi "github.com/trainctl/trainctl/plugins/backend-mpi"
)

func main() {
	sdk.Serve(sdk.Plugin{Backend: func() sdk.Backend { return mpi.New() }})
}
