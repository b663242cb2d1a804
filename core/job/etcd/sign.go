package etcd

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/secret"
)

// Whoever may write to etcd could otherwise change a job: add a node, or replace the record of its
// ranks. Every value is therefore followed by a line with the HMAC-SHA256 (RFC 2104), in hex, of its
// full key and itself, under a key that is derived from the job's secret. Whoever lacks the secret can
// still delete values, and restore old ones under the key that they had.

// macSize is the length of a signature, with the newline before it.
const macSize = 1 + 2*sha256.Size

// sign is a value as it is stored under a key below the job's prefix.
func (j *Job) sign(key string, val []byte) string {
	return string(val) + "\n" + j.mac(key, val)
}

func (j *Job) mac(key string, val []byte) string {
	h := hmac.New(sha256.New, j.key)
	fmt.Fprintf(h, "%s%s\x00", j.prefix, key)
	h.Write(val)
	return hex.EncodeToString(h.Sum(nil))
}

// verify is the value that is stored under a key.
func (j *Job) verify(key string, stored []byte) ([]byte, error) {
	n := len(stored) - macSize
	if n < 0 || stored[n] != '\n' || !hmac.Equal(stored[n+1:], []byte(j.mac(key, stored[:n]))) {
		return nil, foreign{usererr.Errorf(secret.Env, "give all nodes of the job the same secret, and each of several jobs its own run.name", "%s%s in etcd is not signed with this job's secret", j.prefix, key)}
	}
	return stored[:n:n], nil
}

// foreign is the error for a value that a job with another secret has left, or an intruder.
type foreign struct{ error }

func (f foreign) Unwrap() error { return f.error }
