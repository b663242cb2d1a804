package install

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
)

// manifestName is the file of a bundle that lists its plugins.
const manifestName = "trainctl-bundle.json"

// manifest is the content of that file.
type manifest struct {
	Schema   int       `json:"schema"`
	Platform string    `json:"platform"` // that the plugins are built for
	Plugins  []bundled `json:"plugins"`
}

// bundled is a plugin in a folder of the bundle that is named by [registry.Plugin.ID].
type bundled struct {
	Receipt
	Sum string `json:"sum"` // of [registry.Plugin.TreeSum]
}

// bundleSchema is the version of the format.
const bundleSchema = 1

// Bundle writes an archive with plugins, which [Install] installs on machines that cannot
// reach their sources. Equal plugins give equal archives.
func Bundle(w io.Writer, plugins []registry.Plugin) error {
	m := manifest{Schema: bundleSchema, Platform: registry.Platform()}
	for i := range plugins {
		p := &plugins[i]
		if p.Version == "" {
			return fmt.Errorf("%s has no version in its name; install it, which adds the version: trainctl plugins install %s", p.Path, p.Path)
		}
		sum, err := p.TreeSum()
		if err != nil {
			return err
		}
		r := receiptOf(p)
		r.Path = ""
		m.Plugins = append(m.Plugins, bundled{Receipt: r, Sum: sum})
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	z := gzip.NewWriter(w)
	b := bundle{tar.NewWriter(z)}
	err = b.entry(&tar.Header{Name: manifestName, Mode: 0o644, Size: int64(len(text))}, text)
	for i := range plugins {
		if err == nil {
			err = b.plugin(&plugins[i])
		}
	}
	return errors.Join(err, b.Close(), z.Close())
}

// receiptOf reads the receipt of an installed plugin. Another one has what its name says.
func receiptOf(p *registry.Plugin) (r Receipt) {
	if p.Root != "" {
		if text, err := os.ReadFile(p.Root + ".json"); err == nil {
			_ = json.Unmarshal(text, &r) // a damaged one says less
		}
	}
	r.Kind, r.Name, r.Version, r.Path = p.Kind, p.Name, p.Version, p.Root
	switch {
	case len(r.Kinds) > 0:
	case r.Kind == registry.AnyKind:
		r.Kinds = registry.Kinds
	default:
		r.Kinds = []sdk.Kind{r.Kind}
	}
	return r
}

// bundle writes the archive.
type bundle struct{ *tar.Writer }

func (b bundle) entry(h *tar.Header, content []byte) error {
	if err := b.WriteHeader(h); err != nil {
		return err
	}
	_, err := b.Write(content)
	return err
}

// plugin adds a plugin's folder, or its single file in a folder.
func (b bundle) plugin(p *registry.Plugin) error {
	id := p.ID()
	if p.Root == "" {
		bare := registry.Plugin{Kind: p.Kind, Name: p.Name}
		return b.file(path.Join(id, bare.ID()), p.Path)
	}
	return p.Walk(func(name, at string, d fs.DirEntry) error {
		name = path.Join(id, name)
		if d.Type()&fs.ModeSymlink == 0 {
			return b.file(name, at)
		}
		target, err := os.Readlink(at)
		if err != nil {
			return err
		}
		return b.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777})
	})
}

func (b bundle) file(name, from string) error {
	return reading(from, func(f *os.File, info fs.FileInfo) error {
		if err := b.WriteHeader(&tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size()}); err != nil {
			return err
		}
		_, err := io.Copy(b, f)
		return err
	})
}

// bundled returns the manifest if what was fetched is a bundle, else nil.
func (s *stager) bundled() (*manifest, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := new(manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("the bundle is damaged: %w", err)
	}
	switch {
	case m.Schema != bundleSchema:
		return nil, fmt.Errorf("it is a bundle with schema %d, and this trainctl knows %d", m.Schema, bundleSchema)
	case m.Platform != registry.Platform():
		return nil, fmt.Errorf("it is a bundle for %s, and this machine is %s", m.Platform, registry.Platform())
	case s.Name != "":
		return nil, errors.New("it is a bundle, whose plugins have names; --name is for one plugin")
	}
	return m, nil
}

// installAll verifies all plugins of a bundle and installs them. None is started. One that
// is installed already with the same sum is left alone.
func (s *stager) installAll(m *manifest) (all []Receipt, err error) {
	stage := *s
	var moves []func() error
	for _, b := range m.Plugins {
		if len(b.Kinds) == 0 {
			return nil, errors.New("the bundle is damaged: it has a plugin of no kind")
		}
		if err := s.check(&b.Receipt); err != nil {
			return nil, err
		}
		p := registry.Plugin{Kind: b.Kind, Name: b.Name, Version: b.Version}
		if parsed, ok := registry.Parse(p.ID()); !ok || parsed != p {
			return nil, fmt.Errorf("the bundle is damaged: %q is not a plugin", p.ID())
		}
		if err := sumIs(filepath.Join(s.dir, p.ID()), p, b.Sum); err != nil {
			return nil, err
		}
		if err := checkLinks(filepath.Join(s.dir, p.ID())); err != nil {
			return nil, err
		}
		all = append(all, b.Receipt)
		r := &all[len(all)-1]
		if r.Path = filepath.Join(s.Dir, r.id()); sumIs(r.Path, p, b.Sum) == nil {
			continue
		}
		one := stage
		one.dir = filepath.Join(s.dir, p.ID())
		moves = append(moves, func() error { return one.commit(&b.Receipt) })
	}
	for _, move := range moves {
		if err := move(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// sumIs returns an error unless the plugin in a folder has a sum.
func sumIs(root string, p registry.Plugin, sum string) error {
	bare := registry.Plugin{Kind: p.Kind, Name: p.Name}
	p.Root, p.Path = root, filepath.Join(root, bare.ID())
	got, err := p.TreeSum()
	if err == nil && got != sum {
		err = fmt.Errorf("the bundle is damaged: the sum of %s is %s, expected %s", p.ID(), got, sum)
	}
	return err
}

// Entry returns the entry of a lock file for a plugin on this machine.
func Entry(p *registry.Plugin) (registry.Locked, error) {
	sum, err := p.TreeSum()
	return registry.Locked{Kind: p.Kind, Name: p.Name, Version: p.Version, Source: receiptOf(p).Source, Sums: map[string]string{registry.Platform(): sum}}, err
}
