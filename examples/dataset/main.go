// Command trainctl-plugin-spirals is a data set plugin for trainctl: points on
// two interleaved spirals, one class each. See README.md.
package main

import "github.com/trainctl/trainctl/core/sdk"

func main() {
	sdk.Serve(sdk.Plugin{Dataset: func() sdk.Dataset { return &Spirals{} }})
}
