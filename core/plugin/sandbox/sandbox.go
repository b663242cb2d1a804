package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/pattern"
)

// Rules are what a plugin may do, besides what every program needs. It always reads
// system folders and its own executable, and talks to its host.
type Rules struct {
	// Strict restricts reading as well, to Read, and is refused where the kernel cannot
	// enforce it. Without it the plugin reads what its user may read, and runs
	// unrestricted on such a kernel.
	Strict  bool     `json:"strict"`
	Read    []string `json:"read,omitempty"`  // files and folders
	Write   []string `json:"write,omitempty"` // files and folders, which it may also read
	Network bool     `json:"network"`         // it may open sockets to other hosts
}

// Usual returns rules for a plugin that reads data: it writes temporary files, caches, and
// the files and folders that the values of its options name. What a value names may be new
// in a folder that exists, other than the working directory and those above it. The home
// folder and the root are never granted.
func Usual(values []string) Rules {
	write := []string{os.TempDir(), "/dev"}
	if dir, err := os.UserCacheDir(); err == nil {
		write = append(write, dir)
	}
	for _, value := range slices.Concat(values, []string{os.Getenv("TRAINCTL_DATA")}) {
		if path := granted(value); path != "" {
			write = append(write, path)
		}
	}
	slices.Sort(write)
	return Rules{Write: slices.Compact(write)}
}

// granted is the absolute path that a value names if it exists, otherwise the folder that it
// would be made in; "" without either, and for what would grant more than the value says.
func granted(value string) string {
	path, err := filepath.Abs(value)
	if err != nil || value == "" {
		return ""
	}
	if _, err := os.Stat(path); err != nil {
		path = filepath.Dir(path)
		here, err := os.Getwd()
		if _, none := os.Stat(path); none != nil || err != nil || within(path, here) {
			return ""
		}
	}
	if home, _ := os.UserHomeDir(); path == filepath.Clean(home) || path == "/" {
		return ""
	}
	return path
}

// within reports whether a path is a folder or below it.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// String says what the rules allow.
func (r Rules) String() string {
	var parts []string
	if r.Strict {
		parts = append(parts, "it reads system folders, its own executable and "+list(r.Read))
	}
	parts = append(parts, "it writes "+list(r.Write))
	if !r.Network {
		parts = append(parts, "it has no network")
	}
	return strings.Join(parts, ", ")
}

func list(paths []string) string {
	if len(paths) == 0 {
		return "nothing"
	}
	return strings.Join(paths, " ")
}

// arg is the first argument of a process that enters a sandbox and then executes a
// plugin.
const arg = "sandboxed-plugin"

// envRules has the rules of the process that enters a sandbox, as JSON.
const envRules = "TRAINCTL_SANDBOX"

// envSockets names the folder in which go-plugin creates the plugin's socket.
const envSockets = "PLUGIN_UNIX_SOCKET_DIR"

// Command returns the arguments and the additional environment with which a program
// that calls [Enter] executes target in a sandbox, with args. Own is the path of the
// plugin's executable: its name for itself, and what it may read; target may be an open
// descriptor of it.
func Command(target string, args []string, own string, r Rules) (argv, env []string, err error) {
	if target, err = filepath.Abs(target); err != nil {
		return nil, nil, err
	}
	r.Read, r.Write = append([]string{own}, r.Read...), slices.Clone(r.Write)
	for _, paths := range [][]string{r.Read, r.Write} {
		for i, path := range paths {
			if paths[i], err = filepath.Abs(path); err != nil {
				return nil, nil, err
			}
		}
	}
	text, err := json.Marshal(r)
	return append([]string{arg, target, own}, args...), []string{envRules + "=" + string(text)}, err
}

// Enter executes a plugin in a sandbox if args, the command line without the program's
// name, are those of [Command]. It then does not return.
func Enter(args []string) {
	if len(args) < 3 || args[0] != arg {
		return
	}
	var r Rules
	err := json.Unmarshal([]byte(os.Getenv(envRules)), &r)
	if err == nil {
		env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, envRules+"=") })
		err = lockIn(r, args[1], args[2:], env)
	}
	fmt.Fprintf(os.Stderr, "cannot start in the sandbox: %v\n", err)
	os.Exit(1)
}

var (
	denied  = pattern.Lazy{Expr: `(?i)permission denied|errno 13|\bEACCES\b`}
	network = pattern.Lazy{Expr: `(?i)\bsocket\b|\bdial\b|\bconnect|\blookup\b|urlopen|resolve`}
	path    = pattern.Lazy{Expr: `/[^\s'":,;)]+`}
)

// Refused says what of the lines that a plugin printed, or of its error, the rules caused;
// "" if nothing. It goes by the text of the system's errors, so a plugin that prints its
// own is not understood.
func (r Rules) Refused(lines ...string) string {
	for _, line := range lines {
		if !denied.Get().MatchString(line) {
			continue
		}
		for _, p := range slices.Backward(path.Get().FindAllString(line, -1)) { // the last one is what was accessed
			if !slices.ContainsFunc(r.Write, func(dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }) {
				return fmt.Sprintf("its sandbox has probably refused %s (%s); %s", p, r, r.fix())
			}
		}
		if !r.Network && network.Get().MatchString(line) {
			return fmt.Sprintf("its sandbox refused the network (%s); set network = true in its table, [dataset], [[observers]] or [[layer_plugins]], if it needs it", r)
		}
	}
	return ""
}

func (r Rules) fix() string {
	if r.Strict {
		return "name it in the plugin's options, or remove sandbox = true"
	}
	return `create it and name it in the plugin's options, or set plugins.sandbox = "off"`
}
