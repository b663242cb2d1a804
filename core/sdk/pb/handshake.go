package pb

import goplugin "github.com/hashicorp/go-plugin"

// ProtocolVersion is the version of everything in docs/protocol.md. A plugin
// offers the versions it serves, the host picks the newest that both know.
const ProtocolVersion = 1

// ServiceName is the name under which the one service is dispensed.
const ServiceName = "trainctl"

// MaxMessage bounds one gRPC message in either direction. The inline data
// plane is what needs the room.
const MaxMessage = 64 << 20

// Data planes.
const (
	PlaneShm    = "shm"
	PlaneInline = "inline"
)

// Environment of a plugin process, beside go-plugin's own variables.
const (
	EnvKind      = "TRAINCTL_PLUGIN_KIND" // which of its kinds the process serves
	EnvChannel   = "TRAINCTL_PLUGIN_FD"   // descriptor of the socket to the host; absent: inline data plane only
	EnvDataPlane = "TRAINCTL_DATA_PLANE"  // "inline" forces the inline data plane, on either side
)

// Handshake must be equal on both sides. The cookie only tells a host from a
// person; it protects nothing.
var Handshake = goplugin.HandshakeConfig{
	ProtocolVersion:  ProtocolVersion,
	MagicCookieKey:   "TRAINCTL_PLUGIN_COOKIE",
	MagicCookieValue: "trainctl-plugin-1",
}
