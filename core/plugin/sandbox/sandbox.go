package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// arg is the first argument of a process that enters a sandbox and then executes a
// plugin.
const arg = "sandboxed-plugin"

// envReadable lists what a plugin in a sandbox may read, besides the system.
const envReadable = "TRAINCTL_SANDBOX_READ"

// envSockets names the folder in which go-plugin creates the plugin's socket.
const envSockets = "PLUGIN_UNIX_SOCKET_DIR"

// Command returns the arguments and the additional environment with which a program
// that calls [Enter] executes target in a sandbox, with args. Readable are the files
// and folders that it may read.
func Command(target string, args, readable []string) (argv, env []string, err error) {
	if target, err = filepath.Abs(target); err != nil {
		return nil, nil, err
	}
	var may []string
	for _, path := range readable {
		if path, err := filepath.Abs(path); err == nil {
			may = append(may, path)
		}
	}
	return append([]string{arg, target}, args...), []string{envReadable + "=" + strings.Join(may, string(os.PathListSeparator))}, nil
}

// Enter executes a plugin in a sandbox if args, the command line without the program's
// name, are those of [Command]. It then does not return.
func Enter(args []string) {
	if len(args) < 2 || args[0] != arg {
		return
	}
	readable := filepath.SplitList(os.Getenv(envReadable))
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, envReadable+"=") })
	fmt.Fprintf(os.Stderr, "cannot create the sandbox: %v\n", lockIn(readable, args[1:], env))
	os.Exit(1)
}
