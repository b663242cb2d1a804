package scaffold

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/pattern"
	python "github.com/trainctl/trainctl/sdk/python"
)

// python reports whether the plugin is a script.
func (p *Plugin) python() bool { return p.Lang == "python" }

// startsWithDigit is a word of a name that a Python class, which is named by words that
// begin with capitals, cannot show.
var startsWithDigit = pattern.Lazy{Expr: `-[0-9]`}

// script returns the files of a plugin in Python, by name: the SDK's example with the plugin's
// names in it, and what pip installs for it.
func (p *Plugin) script(fsys afero.Fs, source, version string) (map[string]string, error) {
	if startsWithDigit.Get().MatchString(p.Name) {
		return nil, refusedf("%q is not a valid name for a plugin in Python, whose class is named after it: no word may begin with a digit; set --name NAME", p.Name)
	}
	needs, err := requirement(fsys, source, version)
	if err != nil {
		return nil, err
	}
	old := exampleNames[p.Kind]
	rename := strings.NewReplacer(className(old), className(p.Name), "./"+old+".py", "./"+p.Name+".py", fmt.Sprintf("%q", old), fmt.Sprintf("%q", p.Name))
	out := map[string]string{"requirements.txt": needs}
	dir := "examples/" + p.Kind
	entries, err := fs.ReadDir(python.Examples, dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := fs.ReadFile(python.Examples, path.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		name := strings.Replace(strings.Replace(e.Name(), old+".toml", "train.toml", 1), old, p.Name, 1)
		out[name] = rename.Replace(string(text))
	}
	return out, nil
}

// requirement is a line for pip that installs the SDK.
func requirement(fsys afero.Fs, source, version string) (string, error) {
	if source == "" {
		return fmt.Sprintf("trainctl @ git+https://%s@%s#subdirectory=sdk/python\n", sourceModule, version), released(version)
	}
	dir, _, err := sourceFolder(fsys, source)
	return fmt.Sprintf("trainctl @ file://%s\n", filepath.ToSlash(filepath.Join(dir, "sdk", "python"))), err
}

// className is a plugin's name as that of a class: two-spirals is TwoSpirals.
func className(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "-") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}
