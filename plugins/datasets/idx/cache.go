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

// Cache keeps decompressed copies of gzip files in a folder, so that only the
// first run waits for the decompression. A copy is named by the SHA-256 of the
// compressed file and believed when its length and CRC-32 are those that the
// gzip file announces: a stale or damaged copy is never used. A folder that
// cannot be written to costs time and nothing else.
//
// A Cache may be used by several goroutines, and by several processes at once.
type Cache struct {
	Fs  afero.Fs
	Dir string // empty: nothing is kept
	Min int    // bytes of content from which a copy is worth its file

	storing sync.WaitGroup
}

// Load is [Load] through the cache. A copy that is missing is written while
// the caller goes on; Wait waits for it.
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

// Wait returns when every copy is written or given up.
func (c *Cache) Wait() { c.storing.Wait() }

// minGzip is a header and a trailer (RFC 1952).
const minGzip = 18

func (c *Cache) nameOf(raw []byte) string {
	h := sha256.Sum256(raw)
	return filepath.Join(c.Dir, hex.EncodeToString(h[:16])+".idx")
}

// read is nil unless the copy is what raw would decompress to.
func (c *Cache) read(name string, raw []byte, dims int) *Array {
	whole, err := readBounded(c.Fs, name)
	if err != nil {
		return nil
	}
	if crc, size := trailer(raw); uint32(len(whole)) != size || crc32.ChecksumIEEE(whole) != crc {
		return nil
	}
	a, err := Parse(whole, dims)
	if err != nil {
		return nil
	}
	return a
}

// abandoned is the age at which a half-written copy has no writer any more.
const abandoned = 10 * time.Minute

// store writes the copy under another name first. Of several processes one
// does it, and what a killed one left behind is cleared away later.
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
