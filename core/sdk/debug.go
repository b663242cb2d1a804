package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/tempdir"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// A plugin that a person has started, perhaps in a debugger, waits for hosts. Each host
// that attaches gets an instance of its own for one session: docs/protocol.md, section 8.

// debugging reports whether the person who has started the plugin wants to attach hosts.
func debugging() bool {
	v := os.Getenv(pb.EnvDebug)
	return v != "" && v != "0" || slices.Contains(os.Args[1:], "--debug")
}

// serveDebug serves hosts until a signal ends the process.
func serveDebug(p Plugin) error {
	home, err := tempdir.New() // nobody else may enter it
	if err != nil {
		return err
	}
	defer home.Close()
	dir := filepath.Join(home.Path, "plugin-dir")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Setenv(goplugin.EnvUnixSocketDir, dir)); err != nil {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "attach"), Net: "unix"})
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	go func() {
		<-ended
		_ = home.Close()
		os.Exit(0)
	}()
	if err := invite(os.Stdout, os.Stderr, p, l.Addr()); err != nil {
		return err
	}
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return err
		}
		go func() {
			if err := attended(p, conn); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	}
}

// invite prints to out the line that makes hosts attach this process, and to notes what it is for.
func invite(out, notes io.Writer, p Plugin, at net.Addr) error {
	entry := pb.Reattach{Protocol: string(goplugin.ProtocolGRPC), ProtocolVersion: pb.ProtocolVersion, Pid: os.Getpid(),
		Addr: pb.ReattachAddr{Network: at.Network(), String: at.String()}}
	entries := map[string]pb.Reattach{}
	for _, kind := range p.Kinds() {
		info, err := p.Info(kind)
		if err != nil {
			return err
		}
		entries[info.Name] = entry
		fmt.Fprintf(notes, "%s plugin %s %s waits for trainctl in process %d.\n", kind, info.Name, info.Version, entry.Pid)
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	fmt.Fprintln(notes, "In another terminal, before trainctl run, plugins test or plugins trace:")
	if _, err := fmt.Fprintf(out, "export %s='%s'\n", pb.EnvReattach, text); err != nil {
		return err
	}
	_, err = fmt.Fprintln(notes, "For a job with several ranks, start one process for each, and make their entries a list. Ctrl-C ends this one.")
	return err
}

// attended serves one host, which has connected.
func attended(p Plugin, conn *net.UnixConn) error {
	defer conn.Close()
	var host pb.Attach
	if err := json.NewDecoder(conn).Decode(&host); err != nil { // nothing follows before it is answered
		return fmt.Errorf("trainctl connected and then closed the connection: %w", err)
	}
	s, err := newServer(p, Kind(host.Kind), newHostLink(conn), slog.Default())
	if err != nil {
		_, _ = fmt.Fprintln(conn, err) // the host shows it
		return nil
	}
	fmt.Fprintf(os.Stderr, "process %d has attached the %s plugin %s\n", host.PID, s.info.Kind, s.info.Name)
	err = s.session(conn)
	fmt.Fprintf(os.Stderr, "process %d has closed the %s plugin %s\n", host.PID, s.info.Kind, s.info.Name)
	return err
}

// session serves the host at the other end of a connection until it closes the plugin or is gone.
func (s *server) session(conn *net.UnixConn) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.end = cancel
	go func() {
		s.link.run()
		cancel()
	}()
	failed := s.listen(ctx, "", conn)
	if failed != nil {
		_, _ = fmt.Fprintln(conn, failed)
	}
	s.close()
	<-s.closed // whenever the debugger lets it
	_ = conn.Close()
	close(s.over)
	s.loops.Wait()
	for _, arena := range s.mine {
		_ = arena.Close() // the host has it as well
	}
	return failed
}
