package host

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/tempdir"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// inherited are the variables that every plugin gets. Variables that are not listed
// here or in Options.Env, such as credentials, are not passed on.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LC_*", "XDG_*",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR", "PYTHON*",
	"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CUDA_*", "NVIDIA_*", "NCCL_*", "VIRTUAL_ENV", "CONDA_PREFIX", "TRAINCTL_LIB*",
	"TRAINCTL_DATA", "TRAINCTL_CPU", "TRAINCTL_DOORBELL", "TRAINCTL_SPIN", "TRAINCTL_DATA_PLANE",
}

// environment returns the variables of a plugin's process: the host's, filtered by the
// allow-lists, and Options.SetEnv.
func (h *Host) environment(name string, builtin *Builtin) []string {
	allowed := slices.Concat(inherited, h.opts.Env, h.opts.PluginEnv[name])
	if builtin != nil {
		allowed = append(allowed, builtin.Env...)
	}
	var out []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if matches(allowed, name) {
			out = append(out, kv)
		}
	}
	if h.opts.SocketDir != "" {
		out = append(out, pb.EnvShared+"="+tempdir.Shared(h.opts.SocketDir))
	}
	return append(out, h.opts.SetEnv...)
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return p == name || wild && strings.HasPrefix(name, prefix)
	})
}

// descriptors are the variables by which a launcher names a descriptor that it left open
// for this process: MPICH's and Slurm's connection to their process manager.
var descriptors = []string{"PMI_FD"}

// passDescriptors gives the child the descriptors that its variables name, under their
// numbers in the child.
func (c *child) passDescriptors(env []string) error {
	for i, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if !slices.Contains(descriptors, name) {
			continue
		}
		fd, err := strconv.Atoi(value)
		if err == nil {
			fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		}
		if err != nil {
			return fmt.Errorf("%s names no open descriptor of this process: %w; start it as the launcher does, without closing descriptors in between", kv, err)
		}
		f := os.NewFile(uintptr(fd), name)
		c.passed = append(c.passed, f)
		c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, f)
		env[i] = fmt.Sprintf("%s=%d", name, 2+len(c.cmd.ExtraFiles))
	}
	return nil
}

// keepListed is keepDescriptors for the descriptors that the system lists as open.
func keepListed() {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
