package main

import (
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/amp"
)

func main() {
	sdk.Serve(sdk.Plugin{Precision: func() sdk.Precision { return amp.New() }})
}
