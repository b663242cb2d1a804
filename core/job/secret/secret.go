package secret

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Env is the environment variable with a job's secret, as text printed by trainctl secret.
const Env = "TRAINCTL_JOB_SECRET"

// shortest is the minimum length of a secret. Anyone who can reach a rank over the
// network can try any number of guesses, so short secrets do not protect.
const shortest = 16

// longest bounds what is read from a pipe or a file.
const longest = 4096

// Secret is a job's secret; its zero value is no secret. It may be copied; IsZero is
// the only comparison.
type Secret struct{ b []byte }

// New creates a random secret of 256 bits.
func New() Secret {
	b := make([]byte, 32)
	rand.Read(b) // never fails
	return Secret{b: []byte(hex.EncodeToString(b))}
}

// Parse reads a secret from text. It trims surrounding white space.
func Parse(text string) (Secret, error) {
	text = strings.TrimSpace(text)
	switch {
	case len(text) < shortest:
		return Secret{}, fmt.Errorf("it has %d characters, fewer than the %d that make it hard to guess", len(text), shortest)
	case len(text) > longest:
		return Secret{}, fmt.Errorf("it has more than %d characters", longest)
	case strings.ContainsAny(text, "\n\r\x00"):
		return Secret{}, fmt.Errorf("it has more than one line")
	}
	return Secret{b: []byte(text)}, nil
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return len(s.b) == 0 }

// Reveal returns the text, for callers that have to store it.
func (s Secret) Reveal() string { return string(s.b) }

// Key derives 32 bytes for a purpose (HKDF with SHA-256, RFC 5869). Keys of
// different labels reveal nothing about each other or about the secret.
func (s Secret) Key(label string) []byte {
	if s.IsZero() {
		panic("secret: a key of no secret")
	}
	key, err := hkdf.Key(sha256.New, s.b, nil, "trainctl "+label, sha256.Size)
	if err != nil {
		panic(err) // only for a length that HKDF does not support
	}
	return key
}

// Derive returns a separate secret for a part of the job.
func (s Secret) Derive(label string) Secret {
	return Secret{b: []byte(hex.EncodeToString(s.Key(label)))}
}

// Format hides the secret from every verb of package fmt.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, hidden) }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

const hidden = "(hidden)"

// Missing is the error for a job that needs a secret and has none.
func Missing(what string) error {
	return usererr.List{{
		Key:    Env,
		Detail: what + " and has no secret with which its processes authenticate each other",
		Help:   `fix: "trainctl secret" prints a new one; give the same to all hosts, in ` + Env + " or in a file that launch.secret_file names",
	}}.Err()
}

// unusable is the error for an invalid secret.
func unusable(key string, err error) error {
	return usererr.List{{Key: key, Detail: err.Error(), Help: `fix: "trainctl secret" prints a new one`}}.Err()
}
