package rank

import (
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/job/secret"
)

// handshakeTime bounds everything between a connection and its acceptance.
const handshakeTime = 10 * time.Second

// secured is the TLS configuration of a store's connections. Stores and ranks with
// different secrets refuse each other; with name, if it is not "", they can tell
// that they belong to the same job all the same.
func secured(s secret.Secret, name string) (*hostnet.TLS, error) {
	return hostnet.NewTLS(s.Key("control plane"), "store", name)
}

// SecretOf is the secret of this rank's job: the one that the process was given
// (secret.Take), or the one in the file. Without either, a single rank creates a
// random one and the ranks of one host derive one from a file of their user; a job
// over several hosts is refused.
func SecretOf(w World, file string) (secret.Secret, error) {
	s, err := secret.Find(file)
	switch {
	case err != nil || !s.IsZero():
		return s, err
	case w.Size == 1:
		return secret.New(), nil
	case w.LocalSize == w.Size && w.Nodes <= 1:
		return secret.OfHost(fmt.Sprintf("ranks of %q at %s", w.RunID, w.masterHostPort()))
	}
	return s, secret.Missing(fmt.Sprintf("the job has %d ranks on several hosts (%s environment)", w.Size, w.Source))
}

// refusal is why a connection was refused: a cause for hostnet.Notes, and the
// message.
func refusal(err error) (cause, text string) {
	if cause, text = hostnet.Refusal(err); cause == hostnet.CauseOtherSecret {
		text += "; give all hosts the same " + secret.Env
	}
	return cause, text
}
