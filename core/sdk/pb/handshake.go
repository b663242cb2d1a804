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

// Environment of a plugin process, beside go-plugin's other variables.
const (
	EnvKind      = "TRAINCTL_PLUGIN_KIND"       // which of its kinds the process serves
	EnvChannel   = "TRAINCTL_PLUGIN_FD"         // descriptor of the socket to the host; absent: inline data plane only
	EnvShared    = "TRAINCTL_PLUGIN_SHARED_DIR" // a folder that the run's plugins on this host have in common, which may not exist yet
	EnvDataPlane = "TRAINCTL_DATA_PLANE"        // "inline" forces the inline data plane, on either side

	// EnvClientCert is go-plugin's, for the host's certificate.
	EnvClientCert = "PLUGIN_CLIENT_CERT"
)

// Environment of a plugin that a person starts, and of the host that attaches it.
const (
	EnvDebug    = "TRAINCTL_DEBUG"    // neither empty nor 0: wait for hosts
	EnvReattach = "TRAINCTL_REATTACH" // by the plugin's name a [Reattach], or a list with one for each rank, as JSON
)

// Reattach says where a plugin that a person has started waits for hosts. Its JSON is
// that of Terraform's TF_REATTACH_PROVIDERS.
type Reattach struct {
	Protocol        string // "grpc"
	ProtocolVersion int
	Pid             int
	Addr            ReattachAddr
}

// ReattachAddr is the address of a socket.
type ReattachAddr struct {
	Network string // "unix"
	String  string // its path
}

// Attach is the first line that a host sends to such a plugin, as JSON. The plugin answers
// with the line of the handshake, or with one that says why it refuses.
type Attach struct {
	Kind string `json:"kind"`
	PID  int    `json:"pid"` // of the host
}

// Handshake must be equal on both sides. The cookie only tells a host from a
// person; it protects nothing.
var Handshake = goplugin.HandshakeConfig{
	ProtocolVersion:  ProtocolVersion,
	MagicCookieKey:   "TRAINCTL_PLUGIN_COOKIE",
	MagicCookieValue: "trainctl-plugin-1",
}
