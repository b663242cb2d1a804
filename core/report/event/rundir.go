package event

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/durable"
)

// RunDir is the directory of one run, <base>/<name>/<n>.
type RunDir struct {
	fs   afero.Fs
	Path string
}

// CreateRunDir creates the next free <base>/<name>/<n> with its directories and points
// <base>/<name>/latest at it. Two runs that start at once get different numbers, since
// creating the directory reserves the number.
//
// latest is a relative symbolic link; on file systems without them, it is a text file
// with the number.
func CreateRunDir(fsys afero.Fs, base, name string) (RunDir, error) {
	parent := filepath.Join(base, name)
	if err := fsys.MkdirAll(parent, 0o755); err != nil {
		return RunDir{}, fmt.Errorf("run directory: %w (choose another with --run-dir or [run] dir)", err)
	}
	d, err := takeNumber(fsys, parent)
	if err != nil {
		return RunDir{}, err
	}
	return d, d.populate(rand.Text())
}

// Invitation is what the host of rank 0 sends to the others, so that hosts on one file
// system use one run directory.
type Invitation struct {
	Number int    // of the run
	Token  string // unique to the directory, and stored in it
	Path   string // of the directory, for people
	Host   string
}

// tokenFile holds the token of a run's directory.
const tokenFile = ".run"

// Invite returns what other hosts of the job need to find this run directory.
func (d RunDir) Invite() (Invitation, error) {
	token, err := afero.ReadFile(d.fs, filepath.Join(d.Path, tokenFile))
	if err != nil {
		return Invitation{}, fmt.Errorf("run directory: %w", err)
	}
	number, err := strconv.Atoi(filepath.Base(d.Path))
	if err != nil {
		return Invitation{}, fmt.Errorf("run directory: %s does not contain a run number", d.Path)
	}
	path, err := filepath.Abs(d.Path)
	if err != nil {
		path = d.Path
	}
	host, _ := os.Hostname()
	return Invitation{Number: number, Token: string(token), Path: path, Host: host}, nil
}

// JoinRunDir returns the run directory for an invitation on this host: that of rank 0
// if both share a file system, else one on this host, with the same number if that is
// free. All ranks of a host get the same. shared reports whether it existed already.
func JoinRunDir(fsys afero.Fs, base, name string, inv Invitation) (d RunDir, shared bool, err error) {
	parent := filepath.Join(base, name)
	if err := fsys.MkdirAll(parent, 0o755); err != nil {
		return RunDir{}, false, fmt.Errorf("run directory: %w (choose another with --run-dir or [run] dir)", err)
	}
	for n := inv.Number; ; n++ {
		d := RunDir{fsys, filepath.Join(parent, strconv.Itoa(n))}
		err := fsys.Mkdir(d.Path, 0o755) // this host's cache of a network file system may not have it yet
		switch {
		case err == nil:
			return d, false, d.populate(inv.Token)
		case !errors.Is(err, fs.ErrExist):
			return RunDir{}, false, fmt.Errorf("run directory: %w (choose another with --run-dir or [run] dir)", err)
		case d.hasToken(inv.Token):
			return d, true, nil
		}
	}
}

// hasToken waits a moment for the token of a directory that is being created.
func (d RunDir) hasToken(token string) bool {
	for range 20 {
		b, err := afero.ReadFile(d.fs, filepath.Join(d.Path, tokenFile))
		if err == nil && len(b) > 0 {
			return string(b) == token
		}
		if logs, err := afero.DirExists(d.fs, d.Logs()); err == nil && logs {
			return false // it is of a version without tokens
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// populate creates the subdirectories of a new directory, and points latest at it.
func (d RunDir) populate(token string) error {
	fsys := d.fs
	if err := durable.Replace(fsys, filepath.Join(d.Path, tokenFile), []byte(token)); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	for _, sub := range []string{d.Logs(), d.Checkpoints()} {
		if err := fsys.MkdirAll(sub, 0o755); err != nil {
			return fmt.Errorf("run directory: %w", err)
		}
	}
	if err := pointLatest(fsys, filepath.Dir(d.Path), filepath.Base(d.Path)); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	return nil
}

// OpenRunDir opens an existing run directory; a path that ends in "latest" may be the
// link or the text file.
func OpenRunDir(fsys afero.Fs, path string) (RunDir, error) {
	info, err := fsys.Stat(path)
	if err != nil {
		return RunDir{}, fmt.Errorf("run directory: %w", err)
	}
	if info.IsDir() {
		return RunDir{fsys, path}, nil
	}
	var b []byte
	if info.Size() < 32 { // digits; anything longer is not a pointer
		if b, err = afero.ReadFile(fsys, path); err != nil {
			return RunDir{}, fmt.Errorf("run directory: %w", err)
		}
	}
	n := strings.TrimSpace(string(b))
	if _, err := strconv.Atoi(n); err != nil {
		return RunDir{}, fmt.Errorf("run directory: %s is neither a directory nor a pointer to one", path)
	}
	return RunDir{fsys, filepath.Join(filepath.Dir(path), n)}, nil
}

func takeNumber(fsys afero.Fs, parent string) (RunDir, error) {
	entries, err := afero.ReadDir(fsys, parent)
	if err != nil {
		return RunDir{}, fmt.Errorf("run directory: %w", err)
	}
	n := 0
	for _, e := range entries {
		if k, err := strconv.Atoi(e.Name()); err == nil {
			n = max(n, k)
		}
	}
	for {
		n++
		path := filepath.Join(parent, strconv.Itoa(n))
		err := fsys.Mkdir(path, 0o755)
		if err == nil {
			return RunDir{fsys, path}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return RunDir{}, fmt.Errorf("run directory: %w (choose another with --run-dir or [run] dir)", err)
		}
	}
}

func pointLatest(fsys afero.Fs, parent, number string) error {
	latest := filepath.Join(parent, "latest")
	tmp := latest + ".tmp-" + number
	if l, ok := fsys.(afero.Linker); ok {
		if err := l.SymlinkIfPossible(number, tmp); err == nil {
			return fsys.Rename(tmp, latest)
		}
	}
	return durable.Replace(fsys, latest, []byte(number+"\n"))
}

// Config is the resolved configuration, every key.
func (d RunDir) Config() string { return filepath.Join(d.Path, "config.toml") }

// Events is the file of JSON lines.
func (d RunDir) Events() string { return filepath.Join(d.Path, "events.jsonl") }

// Summary is the file that WriteSummary writes.
func (d RunDir) Summary() string { return filepath.Join(d.Path, "summary.json") }

// Timeline is the trace of all ranks, written with metrics.timeline.
func (d RunDir) Timeline() string { return filepath.Join(d.Path, "timeline.json") }

// Logs is the directory of the ranks' logs.
func (d RunDir) Logs() string { return filepath.Join(d.Path, "logs") }

// RankLog is the log of one rank.
func (d RunDir) RankLog(rank int) string {
	return filepath.Join(d.Logs(), "rank-"+strconv.Itoa(rank)+".log")
}

// Checkpoints is the directory for checkpoint.Open.
func (d RunDir) Checkpoints() string { return filepath.Join(d.Path, "checkpoints") }

// Flights is the directory of the ranks' flight records.
func (d RunDir) Flights() string { return filepath.Join(d.Path, "flight") }

// TensorBoard is the directory of event files, created with the first of them.
func (d RunDir) TensorBoard() string { return filepath.Join(d.Path, "tensorboard") }
