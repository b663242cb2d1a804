package main

import (
	"github.com/trainctl/trainctl/core/sdk"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
)

func main() {
	sdk.Serve(sdk.Plugin{Backend: func() sdk.Backend { return tcp.New() }})
}
