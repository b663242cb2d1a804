// Command trainctl-plugin-swish is a layer for trainctl: x·sigmoid(beta·x) with a beta that is
// learned. See README.md.
package main

import "github.com/trainctl/trainctl/core/sdk"

func main() {
	sdk.Serve(sdk.Plugin{Layer: func() sdk.Layer { return Swish{} }})
}
