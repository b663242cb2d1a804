// Command trainctl-plugin-curve is an observer for trainctl: it writes the loss of
// every step to a CSV file. See README.md.
package main

import "github.com/trainctl/trainctl/core/sdk"

func main() {
	sdk.Serve(sdk.Plugin{Observer: func() sdk.Observer { return &Curve{} }})
}
