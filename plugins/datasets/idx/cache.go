package idx

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/afero"
)

// Cache keeps decompressed copies of gzip files in a folder, so that only the first
// run waits for decompression. A copy is named by the SHA-256 of the compressed
// file, and used only if its length and CRC-32 match those in the gzip file, so a
// stale or damaged copy is never used. If the folder cannot be written, loading is
// slower and otherwise works.
//
// A Cache may be used by several goroutines, and by several processes at once.
type Cache struct {
	Fs  afero.Fs
	Dir string // empty: nothing is kept
	Min int    // smallest content in bytes that is cached

	storing sync.WaitGroup
}

// Load is [Load] through the cache. A missing copy is written in the background;
// Wait waits for it.
func (c *Cache) Load(path string, dims int) (*Array, error) {
	raw, err := readBounded(c.Fs, path)
	if err != nil {
		return nil, err
	}
	if c.Dir == "" || !isGzip(raw) || len(raw) < minGzip {
		return parseNamed(raw, path, dims)
	}
	copied := c.nameOf(raw)
	if a := c.read(copied, raw, dims); a != nil {
		return a, nil
	}
	a, err := parseNamed(raw, path, dims)
	if err == nil && len(a.Data) >= c.Min {
		c.storing.Go(func() { c.store(copied, a.whole) })
	}
	return a, err
}

// Wait returns when every copy has been written or has failed.
func (c *Cache) Wait() { c.storing.Wait() }

// minGzip is a header and a trailer (RFC 1952).
const minGzip = 18

func (c *Cache) nameOf(raw []byte) string {
	h := sha256.Sum256(raw)
	return filepath.Join(c.Dir, hex.EncodeToString(h[:16])+".idx")
}

// read returns the copy, or nil if it is not what raw decompresses to.
func (c *Cache) read(name string, raw []byte, dims int) *Array {
	whole, err := readBounded(c.Fs, name)
	if err != nil {
		return nil
	}
	if crc, size := trailer(raw); uint32(len(whole)) != size || crc32.ChecksumIEEE(whole) != crc {
		return nil
	}
	a, err := parse(whole, dims)
	if err != nil {
		return nil
	}
	return a
}

// abandoned is the age at which a half-written copy surely has no writer.
const abandoned = 10 * time.Minute

// store writes the copy under a temporary name first. Only one of several processes
// writes it; files left behind by a killed process are removed later.
func (c *Cache) store(name string, whole []byte) {
	if c.Fs.MkdirAll(c.Dir, 0o700) != nil {
		return
	}
	part := name + ".part"
	f, err := c.Fs.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if info, err := c.Fs.Stat(part); err == nil && time.Since(info.ModTime()) > abandoned {
			c.Fs.Remove(part)
		}
		return
	}
	if err != nil {
		return
	}
	_, err = f.Write(whole)
	if err = errors.Join(err, f.Close()); err == nil {
		err = c.Fs.Rename(part, name)
	}
	if err != nil {
		c.Fs.Remove(part)
	}
}
