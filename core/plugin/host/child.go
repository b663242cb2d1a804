package host

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// inherited are the variables that every plugin gets. Variables that are not listed
// here or in Options.Env, such as credentials, are not passed on.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LC_*", "XDG_*",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR",
	"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CUDA_*", "NVIDIA_*", "NCCL_*", "VIRTUAL_ENV", "CONDA_PREFIX", "TRAINCTL_LIB*",
	"TRAINCTL_DATA", "TRAINCTL_CPU", "TRAINCTL_DOORBELL", "TRAINCTL_SPIN", "TRAINCTL_DATA_PLANE",
}

// environment filters the host's environment by the allow-lists and adds
// Options.SetEnv.
func (h *Host) environment() []string {
	var out []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if matches(inherited, name) || matches(h.opts.Env, name) {
			out = append(out, kv)
		}
	}
	return append(out, h.opts.SetEnv...)
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return p == name || wild && strings.HasPrefix(name, prefix)
	})
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
