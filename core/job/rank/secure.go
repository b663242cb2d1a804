package rank

import (
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/job/secret"
)

// handshakeTime bounds everything between a connection and its acceptance.
const handshakeTime = 10 * time.Second

// secured is the TLS of a store's connections. Stores and ranks of different
// secrets are strangers to each other; name lets them tell that they would
// be of one job, or is "".
func secured(s secret.Secret, name string) (*hostnet.TLS, error) {
	return hostnet.NewTLS(s.Key("control plane"), "store", name)
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

// refusal is why a stranger was turned away: a cause for hostnet.Notes, and
// what there is to say.
func refusal(err error) (cause, text string) {
	if cause, text = hostnet.Refusal(err); cause == hostnet.CauseOtherSecret {
		text += "; give all hosts the same " + secret.Env
	}
	return cause, text
}
