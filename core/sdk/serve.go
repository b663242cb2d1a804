package sdk

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/trainctl/trainctl/core/base/localtls"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// Serve is a plugin's main: it serves the host that started the process, and does
// not return. If a person starts the plugin, it prints a description and exits with
// code 1. With the argument --debug, or TRAINCTL_DEBUG=1 in the environment, it waits for
// trainctl instead and prints how to attach it, so that it can run in a debugger.
//
// Standard output and standard error of the process reach the user's log.
// Records of log/slog keep their level and attributes.
func Serve(p Plugin) {
	if os.Getenv(pb.Handshake.MagicCookieKey) != pb.Handshake.MagicCookieValue {
		if debugging() {
			exitWith(os.Stderr, serveDebug(p))
		}
		introduce(os.Stderr, p)
		os.Exit(1)
	}
	handshake, stderr, err := divertStdout()
	if err != nil {
		exitWith(os.Stderr, err)
	}
	logger := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	slog.SetDefault(logger)
	link, err := openHostLink()
	if err != nil {
		exitWith(stderr, err)
	}
	s, err := newServer(p, Kind(os.Getenv(pb.EnvKind)), link, logger)
	if err != nil {
		exitWith(stderr, err)
	}
	s.watchHost()
	outliveSignals()
	if err := s.listen(context.Background(), os.Getenv(pb.EnvClientCert), handshake); err != nil {
		exitWith(stderr, err)
	}
	runtime.KeepAlive(handshake) // the host takes its end for that of the process
	s.exit()
}

// listen serves gRPC until the host ends it, or ctx ends. It writes the line of the handshake to out. cert is the
// host's certificate as PEM; "": the connection is not encrypted.
//
// go-plugin runs in its test mode: otherwise it writes the line itself, with a certificate only if that is its own, and
// replaces standard output and standard error.
func (s *server) listen(ctx context.Context, cert string, out io.Writer) error {
	var own string
	secured := func() (*tls.Config, error) {
		if cert == "" {
			return nil, nil
		}
		der, config, err := localtls.Server([]byte(cert))
		own = base64.RawStdEncoding.EncodeToString(der)
		return config, err
	}
	ready, told := make(chan *goplugin.ReattachConfig), make(chan struct{})
	go func() {
		defer close(told)
		if at := <-ready; at != nil {
			_, _ = fmt.Fprintf(out, "%d|%d|%s|%s|%s|%s\n", goplugin.CoreProtocolVersion, at.ProtocolVersion, at.Addr.Network(), at.Addr, at.Protocol, own)
		}
	}()
	var why startFailure
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  pb.Handshake,
		TLSProvider:      secured,
		VersionedPlugins: map[int]goplugin.PluginSet{pb.ProtocolVersion: {pb.ServiceName: &service{s: s}}},
		GRPCServer:       s.grpcServer,
		Logger:           hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: &why, JSONFormat: true}),
		Test:             &goplugin.ServeTestConfig{Context: ctx, ReattachConfigCh: ready},
	})
	close(ready)
	<-told
	if !s.serving.Load() { // go-plugin returns without a word
		return fmt.Errorf("this plugin cannot listen for trainctl in %s: %v", os.Getenv(goplugin.EnvUnixSocketDir), &why)
	}
	return nil
}

// startFailure captures the error that go-plugin logs before it gives up.
type startFailure struct{ text string }

func (f *startFailure) Write(line []byte) (int, error) {
	var r struct{ Error string }
	if json.Unmarshal(line, &r) == nil && r.Error != "" && f.text == "" {
		f.text = r.Error
	}
	return len(line), nil
}

func (f *startFailure) String() string { return f.text }

// outliveSignals lets only the host end the process: a batch system that signals
// every process of a job would otherwise kill the backend of ranks that are about
// to write their checkpoint. The signals are caught, not ignored, because children
// would inherit an ignored signal.
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

// grpcServer raises go-plugin's limit of 4 MiB for a request, and recovers panics of
// the plugin's code so that they are reported before the process ends.
func (s *server) grpcServer(opts []grpc.ServerOption) *grpc.Server {
	s.serving.Store(true)
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(pb.MaxMessage),
		grpc.MaxSendMsgSize(pb.MaxMessage),
		grpc.UnaryInterceptor(s.intercept),
	)...)
}

// intercept converts errors and panics to a status that keeps their type.
func (s *server) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	err = guard(func() error {
		reply, err = handler(ctx, req)
		return err
	})
	if err != nil {
		return nil, toStatus(err)
	}
	return reply, nil
}

// introduce prints a description for a person who ran the binary.
func introduce(w io.Writer, p Plugin) {
	var b strings.Builder
	for _, kind := range p.Kinds() {
		info, err := p.Info(kind)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "This is %s %s, %s plugin for trainctl: %s\n", info.Name, info.Version, kind.Phrase(), info.Summary)
		for i := range info.Options {
			b.WriteString("  " + info.Options[i].line() + "\n")
		}
	}
	if b.Len() == 0 {
		b.WriteString("This is a plugin for trainctl that serves nothing.\n")
	}
	b.WriteString("It is started by trainctl: set plugin in [backend], [dataset], [precision], [[observers]] or [[layer_plugins]] of the TOML file to its path.\n")
	b.WriteString("To run it in a debugger, start it with --debug.\n")
	_, _ = io.WriteString(w, b.String())
}

// line formats one option: "rate (float, default 0.5): how fast".
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
