package rank

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/job/secret"
)

// handshakeTime bounds everything between a connection and its acceptance.
const handshakeTime = 10 * time.Second

// secured is the TLS of a store's connections. Stores and ranks of different
// secrets are strangers to each other.
func secured(s secret.Secret) (*hostnet.TLS, error) {
	return hostnet.NewTLS(s.Key("control plane"), "store")
}

// SecretOf is the secret of this rank's job: the one that the process was given
// (secret.Take), or that of the file. Without either a rank alone draws one, and the ranks of one
// host share one that follows from a file of their user; a job over several
// hosts is refused.
func SecretOf(w World, file string) (secret.Secret, error) {
	s, err := secret.Find(file)
	switch {
	case err != nil || !s.IsZero():
		return s, err
	case w.Size == 1:
		return secret.New(), nil
	case w.LocalSize == w.Size && w.Nodes <= 1:
		return secret.OfHost(fmt.Sprintf("ranks of %q at %s", w.RunID, w.MasterHostPort()))
	}
	return s, secret.Missing(fmt.Sprintf("the job has %d ranks on several hosts (%s environment)", w.Size, w.Source))
}

// hungUpOnUs reports whether the peer refused our key, as one with another secret
// does: the accepting end proves itself first.
func hungUpOnUs(err error) bool {
	var alert *net.OpError
	return errors.As(err, &alert) && alert.Op == "remote error"
}

// refusal is why a stranger was turned away: a cause for hostnet.Notes, and
// what there is to say.
func refusal(err error) (cause, text string) {
	var other tls.RecordHeaderError
	switch {
	case errors.As(err, &other):
		return "protocol", fmt.Sprintf("speaks another protocol (began with %q)", other.RecordHeader[:])
	case errors.Is(err, hostnet.ErrOtherSecret), hungUpOnUs(err):
		return "other secret", "does not know the job's secret: it was given another " + secret.Env
	case errors.Is(err, hostnet.ErrStranger):
		return "secret", "does not know the job's secret"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "silence", fmt.Sprintf("did not prove within %v that it knows the job's secret", handshakeTime)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "hung up", "hung up before it proved that it knows the job's secret"
	}
	return "handshake", "did not prove that it knows the job's secret: " + err.Error()
}
