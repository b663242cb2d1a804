package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"time"

	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// The files of a checkpoint directory.
const (
	ModelFile     = "model.safetensors"
	OptimizerFile = "optimizer.safetensors"
	ManifestFile  = "manifest.json"

	// AverageFile is there when the snapshot has an Average.
	AverageFile = "ema.safetensors"

	// CompressionFile is there when the snapshot has Compression.
	CompressionFile = "compression.safetensors"
)

const (
	manifestFormat = "trainctl-checkpoint"

	// manifestVersion is the highest version. Every checkpoint has the lowest version that
	// describes it, so that earlier versions of trainctl can read it if possible: 1 has no
	// CompressionFile, and up to 2 Sampler.Consumed is a multiple of the world size.
	manifestVersion = 3
)

// Manifest is manifest.json: the sums of the other files, and all of a
// Snapshot that is not a tensor. Its parts are embedded in the order of the
// file's members, which FORMAT.md gives.
type Manifest struct {
	Origin
	Progress
	Job
	Sampler Sampler           `json:"sampler"`
	Dataset Dataset           `json:"dataset"`
	Plugins []Plugin          `json:"plugins,omitempty"`
	Scaler  map[string]number `json:"scaler"`
	Watched map[string]number `json:"watched,omitempty"`
	Quality
	Config       string          `json:"config"`
	ConfigSHA256 string          `json:"config_sha256"`
	Files        map[string]File `json:"files"`
}

// Origin is the format of a manifest, and who wrote it when.
type Origin struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`
	Save      int       `json:"save"` // counts the saves of a directory: the highest is the newest
}

// Progress is the progress of the run, as in a Snapshot.
type Progress struct {
	Step    int `json:"step"`
	Epoch   int `json:"epoch"`
	Applied int `json:"applied_steps"`
}

// Job is what was trained, and on how many ranks.
type Job struct {
	WorldSize  int    `json:"world_size"`
	Precision  string `json:"precision"`
	Parameters int    `json:"parameters"`
	Prefix     string `json:"prefix"` // of the tensors' names
	Seed       uint64 `json:"seed"`
}

// Quality is the measured quality of the model.
type Quality struct {
	Metrics   map[string]number `json:"metrics"`
	Best      *Best             `json:"best,omitempty"`
	NonFinite string            `json:"non_finite,omitempty"` // first tensor of the model that is not finite; such a checkpoint does not count as good
}

// File is the manifest entry of another file.
type File struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// tensorFiles are the files of tensors that the checkpoint has.
func (m Manifest) tensorFiles() []string {
	files := []string{ModelFile, OptimizerFile}
	for _, file := range []string{CompressionFile, AverageFile} {
		if _, ok := m.Files[file]; ok {
			files = append(files, file)
		}
	}
	return files
}

// ErrChecksum matches every file whose checksum does not match.
var ErrChecksum = errors.New("checksum does not match")

// broken distinguishes a missing or damaged file from a temporary error of the file
// system.
func broken(err error) bool {
	return errors.Is(err, ErrChecksum) || errors.Is(err, safetensors.ErrFormat) || errors.Is(err, fs.ErrNotExist)
}

func (s *Snapshot) manifest() Manifest {
	version := 1
	switch {
	case s.Sampler.Done() != s.Sampler.Offset*s.Sampler.WorldSize:
		version = manifestVersion
	case len(s.Compression) > 0:
		version = 2
	}
	return Manifest{
		Origin:   Origin{Format: manifestFormat, Version: version, CreatedBy: s.CreatedBy},
		Progress: Progress{Step: s.Step, Epoch: s.Epoch, Applied: s.Applied},
		Job:      Job{WorldSize: s.WorldSize, Precision: s.Precision, Parameters: s.Parameters, Seed: s.Seed},
		Sampler:  s.Sampler, Dataset: s.Dataset, Plugins: s.Plugins, Scaler: convert[number](s.Scaler), Watched: convert[number](s.Watched),
		Quality: Quality{Metrics: convert[number](s.Metrics)},
		Config:  s.Config, ConfigSHA256: hexSum([]byte(s.Config)),
		Files: map[string]File{},
	}
}

// snapshot is the inverse of Snapshot.manifest; the tensors are still missing.
func (m Manifest) snapshot() *Snapshot {
	return &Snapshot{
		Step: m.Step, Epoch: m.Epoch, Applied: m.Applied,
		Scaler: convert[float64](m.Scaler), Watched: convert[float64](m.Watched), Sampler: m.Sampler, Seed: m.Seed, Dataset: m.Dataset, Plugins: m.Plugins,
		Metrics: convert[float64](m.Metrics), Best: m.Best,
		Config: m.Config, WorldSize: m.WorldSize, Precision: m.Precision, Parameters: m.Parameters, CreatedBy: m.CreatedBy,
	}
}

func convert[To, From ~float64](m map[string]From) map[string]To {
	if m == nil {
		return nil
	}
	out := make(map[string]To, len(m))
	for k, v := range m {
		out[k] = To(v)
	}
	return out
}

func hexSum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// The manifest has the checksums of the other files; its last member is the checksum of
// all manifest bytes before it.
const sumMember = ",\n  \"sha256\": \""

func (m Manifest) encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	b = bytes.TrimSuffix(b, []byte("\n}"))
	sum := hexSum(b)
	return append(b, sumMember+sum+"\"\n}\n"...), nil
}

func decodeManifest(b []byte) (Manifest, error) {
	var m Manifest
	at := bytes.LastIndex(b, []byte(sumMember))
	if len(b) == 0 {
		return m, fmt.Errorf("%s is empty: %w", ManifestFile, ErrChecksum)
	}
	if at < 0 {
		return m, fmt.Errorf("%s: %w: it has no checksum of its own", ManifestFile, ErrChecksum)
	}
	if got := string(b[at+len(sumMember):]); got != hexSum(b[:at])+"\"\n}\n" {
		return m, fmt.Errorf("%s: %w", ManifestFile, ErrChecksum)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	if m.Format != manifestFormat || m.Version < 1 || m.Version > manifestVersion {
		return m, fmt.Errorf("%s: format %q version %d, this version of trainctl reads %q up to version %d", ManifestFile, m.Format, m.Version, manifestFormat, manifestVersion)
	}
	return m, nil
}

// number is a float64 that survives JSON: what has no number there becomes a string.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		s = `"` + s + `"`
	}
	return []byte(s), nil
}

func (n *number) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(b, `"`)), 64)
	*n = number(f)
	return err
}
