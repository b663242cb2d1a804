// Command trainctl-plugin-star is a communication backend for trainctl: a star
// whose centre is rank 0. See README.md.
package main

import "github.com/trainctl/trainctl/core/sdk"

func main() {
	sdk.Serve(sdk.Plugin{Backend: func() sdk.Backend { return &Star{} }})
}
