package config

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/similar"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/registry"
)

// CheckPlugin checks the options table of a plugin against the options that the
// plugin publishes. c is the configuration that the options must agree with; it may have problems too.
//
// resolved holds every option including defaults; it may be nil. Keys of problems are
// relative to the options table. err is set if the plugin does not start or cannot be
// used: it is reported at the plugin's name and is available through [Error.Unwrap].
// A usererr.Error holds problems of other tables, with full keys.
type CheckPlugin func(c *Config, t PluginTable) (resolved map[string]any, problems usererr.List, err error)

// LoadOptions are the settings from outside the file. Flags override Env, Env
// overrides the file, and Set overrides all of them.
type LoadOptions struct {
	Set   []string                    // --set arguments, "key=value"
	Flags []Override                  // flags that set a key
	Env   func(string) (string, bool) // os.LookupEnv; nil reads no environment
	Stdin io.Reader                   // read when the path is "-"; nil: os.Stdin
	Check CheckPlugin                 // if nil, plugin options are not checked

	// Endpoint gives launch.rdzv_endpoint to a configuration whose job finds out where node 0 is when it
	// starts; nil: it is as configured. That of etcd always is.
	Endpoint func(launch.Config) string

	lock *registry.Lock
}

// Config is a checked configuration.
type Config struct {
	File
	Path     string         // as given to Load; "<stdin>" for "-"
	Warnings []Diagnostic   // problems that do not stop a run
	Lock     *registry.Lock // of plugins given by name; nil if there is none

	places map[string]place
	report *report
}

// Load reads a file, applies overrides, decodes and checks it; "-" is standard
// input. All problems of the content are one [*Error]. If the file cannot be read,
// the error wraps the file system's.
func Load(fs afero.Fs, path string, o LoadOptions) (*Config, error) {
	text, name, err := read(fs, path, o.Stdin)
	if err != nil {
		return nil, err
	}
	if o.lock, err = ReadLock(fs, path); err != nil {
		return nil, err
	}
	return Parse(name, text, o)
}

// ReadLock reads the lock file beside a configuration; nil if there is none.
func ReadLock(fs afero.Fs, path string) (*registry.Lock, error) {
	text, err := afero.ReadFile(fs, LockPath(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the lock of plugins: %w", err)
	}
	return registry.ParseLock(text)
}

// LockPath is the path of the lock file that belongs to a configuration.
func LockPath(config string) string { return filepath.Join(filepath.Dir(config), registry.LockName) }

func read(fs afero.Fs, path string, stdin io.Reader) (text, name string, err error) {
	if path != "-" {
		b, err := afero.ReadFile(fs, path)
		if err != nil {
			return "", "", usererr.Allowed(fmt.Errorf("reading the configuration: %w%s", err, instead(fs, path, err)))
		}
		return string(b), path, nil
	}
	if stdin == nil {
		stdin = os.Stdin
	}
	b, err := io.ReadAll(stdin)
	if err != nil {
		return "", "", fmt.Errorf("reading the configuration from standard input: %w", err)
	}
	return string(b), "<stdin>", nil
}

// instead suggests configurations for a path that cannot be read.
func instead(fs afero.Fs, path string, err error) string {
	dir, base := filepath.Split(path)
	if errors.Is(err, iofs.ErrPermission) {
		return "" // the path is right
	}
	if ok, _ := afero.IsDir(fs, path); ok {
		dir, base = path, ""
	}
	files, _ := afero.Glob(fs, filepath.Join(dir, "*.toml")) // the pattern is sound unless the path has one
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = filepath.Base(f)
	}
	if name := similar.Nearest(base, names, max(1, len(strings.TrimSuffix(base, ".toml"))/3)); name != "" {
		return "; did you mean " + filepath.Join(dir, name) + "?"
	}
	return "; fix: give the path of a TOML file, such as configs/mnist-ddp.toml"
}

// Parse is Load for the text of a file; name stands for its path in messages.
func Parse(name, text string, o LoadOptions) (*Config, error) {
	r, root, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	t := &tree{report: r, root: root}
	t.environment(o.Env)
	t.flags(o.Flags)
	t.sets(o.Set)

	c := &Config{Path: name, File: defaults(optimizerName(root)), Lock: o.lock, report: r, places: r.places}
	c.Run.Name = nameOf(name)
	decoder{r}.table("", root, reflect.ValueOf(&c.File).Elem())
	if o.Endpoint != nil && !c.Launch.UsesEtcd() {
		c.Launch.RdzvEndpoint = o.Endpoint(c.Launch)
	}
	c.resolve()
	c.check()
	causes := c.plugins(o.Check)
	if r.failed() {
		return nil, &Error{Diagnostics: r.sorted(), Causes: causes}
	}
	c.Warnings = r.sorted()
	return c, nil
}

// parse reads TOML and where its keys are.
func parse(name, text string) (*report, map[string]any, error) {
	src := &source{name: name, text: withoutMark(text)}
	r := newReport(src)
	root := map[string]any{}
	if _, err := toml.Decode(src.text, &root); err != nil {
		r.syntax(err)
		return nil, nil, &Error{Diagnostics: r.sorted()}
	}
	r.places = index(src)
	return r, root, nil
}

// withoutMark removes the byte order mark that some editors write. The TOML
// parser skips the same ones, and its offsets do not count them.
func withoutMark(text string) string {
	for _, mark := range []string{"\xff\xfe", "\xfe\xff", "\ufeff"} {
		if rest, ok := strings.CutPrefix(text, mark); ok {
			return withoutMark(rest)
		}
	}
	return text
}

// syntax reports the TOML parser's error. The parser stops there, so it is the
// only problem of the report.
func (r *report) syntax(err error) {
	var p toml.ParseError
	if !errors.As(err, &p) {
		r.add(SeverityError, "", r.file, span{}, "", err.Error())
		return
	}
	sp := span{p.Position.Start, p.Position.Start + max(1, p.Position.Len)}
	msg := p.Message
	if msg == "" {
		msg = p.Error()
	}
	r.add(SeverityError, "", r.file, sp, syntaxHelp(msg), "not valid TOML: "+strings.TrimSuffix(msg, "."))
}

// syntaxFixes are by a part of the parser's message. The first that fits counts.
var syntaxFixes = []struct{ part, help string }{
	{"expected value but found '\\n'", "write a value after the equals sign, or remove the key"},
	{"expected value but found '“'", `use straight quotes: name = "mnist"`},
	{"expected value but found '”'", `use straight quotes: name = "mnist"`},
	{"expected value but found '‘'", `use straight quotes: name = "mnist"`},
	{"expected value", `put strings in quotes: name = "mnist"`},
	{"already been defined", "merge the two: a key or table may appear only once"},
	{"UTF-8", "save the file as UTF-8"},
	{"expected '.' or '='", "write key = value; a key with other characters than A-Z, a-z, 0-9, _ and - needs quotes"},
	{"end with a newline", "write one key = value per line, strings in quotes, and numbers with a decimal point"},
}

func syntaxHelp(msg string) string {
	for _, f := range syntaxFixes {
		if strings.Contains(msg, f.part) {
			return f.help
		}
	}
	return ""
}

// optimizerName reads the optimizer's name first, since other defaults depend on it.
func optimizerName(root map[string]any) string {
	t, _ := root["optimizer"].(map[string]any)
	name, _ := t["name"].(string)
	return name
}

// nameOf names a run after its file.
func nameOf(file string) string {
	base := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if file == "<stdin>" || base == "" {
		return "run"
	}
	return base
}

// resolve sets the defaults that depend on other settings.
func (c *Config) resolve() {
	if c.Sampler.Seed == nil {
		seed := c.Run.Seed
		c.Sampler.Seed = &seed
	}
	given := c.report.given
	if given("train.max_steps") && c.Train.MaxSteps > 0 && !given("train.epochs") {
		c.Train.Epochs = 0 // as many as the steps need
	}
	if given("ddp.bucket_cap_mb") && c.DDP.BucketCapMB >= 0 && !c.DDP.BucketCapMB.IsAuto() && !given("ddp.first_bucket_mb") {
		c.DDP.FirstBucketMB = float64(c.DDP.BucketCapMB) // as in DistributedDataParallel
	}
}
