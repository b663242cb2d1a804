// Command trainctl-plugin-backend-tcp serves the TCP backend as a plugin of its own.
package main

import (
	"github.com/trainctl/trainctl/core/sdk"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
)

func main() {
	sdk.Serve(sdk.Plugin{Backend: func() sdk.Backend { return tcp.New() }})
}
