// Command trainctl-plugin-halving is a precision plugin for trainctl: float16
// with a loss scale that is halved after an overflow. See README.md.
package main

import "github.com/trainctl/trainctl/core/sdk"

func main() {
	sdk.Serve(sdk.Plugin{Precision: func() sdk.Precision { return &Halving{} }})
}
