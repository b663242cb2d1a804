// Package hostnet secures the connections between the hosts of a job: it chooses
// the ports to listen on (Listen), authenticates both ends (TLS), and limits what
// an unauthenticated peer can do (Limiter, Notes). core/base/keepalive ends
// connections that are broken.
//
// It imports core/base/system alone. Start with listen.go.
package hostnet

import _ "github.com/trainctl/trainctl/core/base/system"
