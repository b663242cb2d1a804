package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/base/tempdir"
	"github.com/trainctl/trainctl/core/engine/kernel"
)

// machineChecks check what every run needs.
func machineChecks(ctx context.Context) []Check {
	checks := []Check{cores(), instructions(), sharedMemory(), temporary(), loopback(ctx), hostname(ctx), interfaces()}
	checks = append(checks, limitChecks()...)
	for i := range checks {
		checks[i].Area = "machine"
	}
	return checks
}

func cores() Check {
	c := Check{Name: "cores", Verdict: fine, Found: fmt.Sprintf("%d usable, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)}
	if n := cgroup.Cores(); n < runtime.NumCPU() {
		c.Found += fmt.Sprintf("; the CPU quota of the control group allows %d", n)
	}
	return c
}

func instructions() Check {
	level, err := kernel.Active()
	switch {
	case err != nil:
		return Check{Name: "instructions", Verdict: broken, Found: err.Error(), Fix: "unset " + kernel.EnvCPU}
	case level == kernel.Generic && runtime.GOARCH == "amd64":
		return Check{Name: "instructions", Verdict: remark, Found: "no AVX2 and FMA: kernels run as plain Go, many times slower",
			Fix: "use a newer CPU, or a virtual machine that passes the host's CPU through"}
	}
	return Check{Name: "instructions", Verdict: fine, Found: level.String()}
}

// sharedMemory allocates an arena as a run does.
func sharedMemory() Check {
	const size = 1 << 20
	arena, err := shm.New("doctor", size)
	if err != nil {
		return Check{Name: "shared memory", Verdict: broken, Found: err.Error(), Fix: "allow memfd_create (seccomp profiles of old container runtimes refuse it)"}
	}
	defer arena.Close()
	return Check{Name: "shared memory", Verdict: fine, Found: "an arena can be allocated and mapped"}
}

func temporary() Check {
	c := Check{Name: "temporary files", Verdict: fine, Found: os.TempDir()}
	f, err := os.CreateTemp("", "trainctl-doctor-*")
	if err != nil {
		c.Verdict, c.Found, c.Fix = broken, err.Error(), "point TMPDIR at a directory that can be written"
		return c
	}
	if home := tempdir.Home(); home != os.TempDir() {
		c.Found += ", plugins' sockets in " + home
	}
	f.Close()
	os.Remove(f.Name())
	return c
}

const resolveBudget = 3 * time.Second

func loopback(ctx context.Context) Check {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Check{Name: "loopback", Verdict: broken, Found: err.Error(), Fix: "bring the interface lo up: ranks of one host connect over it"}
	}
	defer l.Close()
	return Check{Name: "loopback", Verdict: fine, Found: "a port can be opened on 127.0.0.1"}
}

// hostname matters only for jobs over several hosts, which connect by it.
func hostname(ctx context.Context) Check {
	name, err := os.Hostname()
	if err != nil {
		return Check{Name: "host name", Verdict: remark, Found: err.Error(), Fix: "name this host, or use addresses in --rdzv-endpoint"}
	}
	ctx, cancel := context.WithTimeout(ctx, resolveBudget)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return Check{Name: "host name", Verdict: remark, Found: fmt.Sprintf("%s does not resolve", name),
			Fix: "add it to /etc/hosts or DNS, or use addresses in --rdzv-endpoint; runs on only this host do not need it"}
	}
	return Check{Name: "host name", Verdict: fine, Found: name + " is " + strings.Join(found, ", ")}
}

// interfaces lists the addresses at which other hosts may reach this one.
func interfaces() Check {
	list, err := net.Interfaces()
	if err != nil {
		return Check{Name: "interfaces", Verdict: remark, Found: err.Error()}
	}
	var up []string
	for _, i := range list {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addresses, _ := i.Addrs() // gone since the list was made
		for _, a := range addresses {
			if ip, _, err := net.ParseCIDR(a.String()); err == nil && ip.IsGlobalUnicast() {
				up = append(up, i.Name+" "+ip.String())
			}
		}
	}
	if len(up) == 0 {
		return Check{Name: "interfaces", Verdict: absence, Found: "none but the loopback: runs stay on this host"}
	}
	return Check{Name: "interfaces", Verdict: fine, Found: strings.Join(up, ", ")}
}

// meminfo reads a line of /proc/meminfo, in bytes; 0 if there is none.
func meminfo(key string) uint64 {
	data, err := os.ReadFile(filepath.Join("/proc", "meminfo"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		var kib uint64
		if _, err := fmt.Sscanf(line, key+": %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}
