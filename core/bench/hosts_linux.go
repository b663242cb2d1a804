//go:build !portable

package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// NewHosts creates n hosts, at least two.
func NewHosts(n int) (*Hosts, error) {
	if n < 2 || n > 200 {
		return nil, fmt.Errorf("%d hosts: 2 to 200 are supported", n)
	}
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("%w: they need root", ErrNoHosts)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, fmt.Errorf("%w: the program ip of iproute2 is not installed", ErrNoHosts)
	}
	h := &Hosts{}
	prefix := "trainctl-" + strings.ToLower(rand.Text()[:8])
	for i := range n {
		name := fmt.Sprintf("%s-%d", prefix, i)
		if err := ip("netns", "add", name); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %w", ErrNoHosts, err), h.Close())
		}
		h.names = append(h.names, name)
	}
	if err := h.connect(prefix); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// connect connects two hosts directly, or all of them to a switch.
func (h *Hosts) connect(prefix string) error {
	if len(h.names) == 2 {
		if err := ip("-n", h.names[0], "link", "add", h.Device(), "type", "veth", "peer", "name", h.Device(), "netns", h.names[1]); err != nil {
			return err
		}
		return h.configure()
	}
	name := prefix + "-switch"
	if err := ip("netns", "add", name); err != nil {
		return err
	}
	h.joined = name
	if err := errors.Join(ip("-n", name, "link", "add", "br0", "type", "bridge"), ip("-n", name, "link", "set", "br0", "up")); err != nil {
		return err
	}
	for i, host := range h.names {
		port := fmt.Sprintf("port%d", i)
		if err := ip("-n", name, "link", "add", port, "type", "veth", "peer", "name", h.Device(), "netns", host); err != nil {
			return err
		}
		if err := ip("-n", name, "link", "set", port, "master", "br0", "up"); err != nil {
			return err
		}
	}
	return h.configure()
}

func (h *Hosts) configure() error {
	for i, n := range h.names {
		if err := errors.Join(
			ip("-n", n, "addr", "add", h.Addr(i)+"/24", "dev", h.Device()),
			ip("-n", n, "link", "set", h.Device(), "up"),
			ip("-n", n, "link", "set", "lo", "up"),
		); err != nil {
			return err
		}
	}
	return nil
}

// Command is exec.CommandContext on the i-th host.
func (h *Hosts) Command(ctx context.Context, i int, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", h.names[i], program}, args...)...)
}

// Close removes the hosts. Processes that still run there keep their namespace
// until they end.
func (h *Hosts) Close() error {
	var errs []error
	for _, n := range h.names {
		errs = append(errs, ip("netns", "del", n))
	}
	if h.joined != "" {
		errs = append(errs, ip("netns", "del", h.joined))
	}
	h.names, h.joined = nil, ""
	return errors.Join(errs...)
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
