// Command trainctl-plugin-backend-tcp serves the TCP backend as a plugin of its own.
//
// It imports core/sdk and plugins/backend-tcp.
package main
