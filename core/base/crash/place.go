package crash

import (
	"path"
	"slices"
	"strings"
)

// module is trainctl's module path with a slash.
const module = "github.com/trainctl/trainctl/"

// standard lists the roots of Go's standard packages that appear in stacks, without
// "main".
var standard = []string{"runtime", "internal", "reflect", "sync", "syscall", "os", "net", "io", "bufio", "bytes", "compress", "container", "context",
	"crypto", "database", "encoding", "errors", "fmt", "hash", "image", "iter", "log", "maps", "math", "regexp", "slices", "sort", "strconv", "strings",
	"testing", "text", "html", "time", "unicode", "unique", "weak", "vendor", "panic", "go", "archive", "mime", "path"}

// ours reports whether a function belongs to trainctl or a plugin's own module, and
// not to Go or a dependency.
func ours(function, place string) bool {
	if strings.HasPrefix(place, "_cgo_") {
		return false
	}
	if strings.HasPrefix(function, module) || strings.HasPrefix(function, "main.") {
		return true
	}
	root := function
	if i := strings.IndexAny(root, "/.("); i >= 0 {
		root = root[:i]
	}
	return !slices.Contains(standard, root) && !strings.Contains(place, "@v") && !strings.Contains(place, "/vendor/")
}

// trim shortens a function name: "core/train.(*Loop).step".
func trim(function string) string { return strings.TrimPrefix(function, module) }

// trimPlace shortens a file path to the part inside its module, whether or not the
// program was built with -trimpath.
func trimPlace(function, place string) string {
	if _, inside, ok := strings.Cut(place, module); ok {
		return inside
	}
	if rest, ok := strings.CutPrefix(function, module); ok {
		return path.Join(packageOf(rest), path.Base(place))
	}
	parts := strings.Split(place, "/")
	return strings.Join(parts[max(0, len(parts)-3):], "/")
}

// packageOf cuts "core/train.(*Loop).step" behind its package.
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	if i := strings.IndexByte(function[slash:], '.'); i >= 0 {
		return function[:slash+i]
	}
	return function
}
