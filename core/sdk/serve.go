package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/trainctl/trainctl/core/sdk/pb"
)

// Serve is a plugin's main: it talks to the host that started the process,
// and does not return. Called by hand, without a host, it prints what the
// plugin is and exits with code 1.
//
// Standard output and standard error of the process reach the user's log.
// Records of log/slog keep their level and attributes.
func Serve(p Plugin) {
	if os.Getenv(pb.Handshake.MagicCookieKey) != pb.Handshake.MagicCookieValue {
		introduce(os.Stderr, p)
		os.Exit(1)
	}
	stdout, stderr, err := divertStdout()
	if err != nil {
		exitWith(os.Stderr, err)
	}
	logger := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	slog.SetDefault(logger)
	s, err := newServer(p, Kind(os.Getenv(pb.EnvKind)), logger)
	if err != nil {
		exitWith(stderr, err)
	}
	s.restoreStdio = func() { os.Stdout, os.Stderr = stderr, stderr }
	s.watchHost()
	outliveSignals()
	os.Stdout = stdout // for the handshake line
	var why startFailure
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  pb.Handshake,
		VersionedPlugins: map[int]goplugin.PluginSet{pb.ProtocolVersion: {pb.ServiceName: &service{s: s}}},
		GRPCServer:       s.grpcServer,
		Logger:           hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: &why, JSONFormat: true}),
	})
	if !s.serving.Load() { // go-plugin returns without a word
		exitWith(stderr, fmt.Errorf("this plugin cannot listen for trainctl in %s: %v", os.Getenv(goplugin.EnvUnixSocketDir), &why))
	}
	s.exit()
}

// startFailure keeps the error that go-plugin logs before it gives up.
type startFailure struct{ text string }

func (f *startFailure) Write(line []byte) (int, error) {
	var r struct{ Error string }
	if json.Unmarshal(line, &r) == nil && r.Error != "" && f.text == "" {
		f.text = r.Error
	}
	return len(line), nil
}

func (f *startFailure) String() string { return f.text }

// outliveSignals leaves the end of the process to the host: a batch system
// that signals every process of a job would otherwise take the backend away
// from ranks that are about to write their checkpoint. The signals are caught
// rather than ignored, because an ignored signal is inherited by children.
func outliveSignals() {
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
}

func exitWith(w io.Writer, err error) {
	_, _ = fmt.Fprintln(w, err)
	os.Exit(1)
}

// service registers the server with go-plugin.
type service struct {
	goplugin.NetRPCUnsupportedPlugin
	s *server
}

// GRPCServer implements goplugin.GRPCPlugin.
func (p *service) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	pb.RegisterPluginServer(g, p.s)
	return nil
}

// GRPCClient implements goplugin.GRPCPlugin; a plugin is never the client.
func (p *service) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, fmt.Errorf("not a client")
}

// grpcServer lifts go-plugin's limit of 4 MiB for a request, and keeps a
// panic of the plugin's code from ending the process before it is reported.
func (s *server) grpcServer(opts []grpc.ServerOption) *grpc.Server {
	s.serving.Store(true)
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(pb.MaxMessage),
		grpc.MaxSendMsgSize(pb.MaxMessage),
		grpc.UnaryInterceptor(s.intercept),
	)...)
}

// intercept turns errors and panics into a status that carries their type.
func (s *server) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	s.stdioOnce.Do(s.restoreStdio)
	err = guard(func() error {
		reply, err = handler(ctx, req)
		return err
	})
	if err != nil {
		return nil, toStatus(err)
	}
	return reply, nil
}

// introduce tells a person who ran the binary what it is for.
func introduce(w io.Writer, p Plugin) {
	var b strings.Builder
	for _, kind := range p.Kinds() {
		info, err := p.Info(kind)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "This is %s %s, a %s plugin for trainctl: %s\n", info.Name, info.Version, kind, info.Summary)
		for i := range info.Options {
			b.WriteString("  " + info.Options[i].line() + "\n")
		}
	}
	if b.Len() == 0 {
		b.WriteString("This is a plugin for trainctl that serves nothing.\n")
	}
	fmt.Fprintf(&b, "trainctl starts it by itself; name its path in the TOML as the plugin of [backend], [dataset] or [precision].\n")
	_, _ = io.WriteString(w, b.String())
}

// line is one option for people: "rate (float, default 0.5): how fast".
func (o *Option) line() string {
	notes := []string{string(o.Type)}
	if o.Unit != "" {
		notes = append(notes, "in "+o.Unit)
	}
	if len(o.Enum) > 0 {
		notes = append(notes, "one of "+quoted(o.Enum))
	}
	switch {
	case o.Required:
		notes = append(notes, "required")
	case o.Default != nil:
		notes = append(notes, fmt.Sprintf("default %v", o.Default))
	}
	return fmt.Sprintf("%s (%s): %s", o.Name, strings.Join(notes, ", "), o.Doc)
}
