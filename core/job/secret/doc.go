// Package secret manages the secret that the processes of a job share, and derives
// keys from it.
//
// A job over several hosts gets its secret from the environment (Env) or from a
// file (readFile). Take reads the environment when a process starts and removes the
// secret from it, so that no child inherits it. A launcher passes its ranks' secret
// through a pipe (Pipe). The secret itself is never sent over the network: keys are
// derived from it (Secret.Key), one for each purpose. A Secret prints itself as
// "(hidden)".
//
// It imports core/base/usererr and core/base/system. Start with secret.go.
package secret

import _ "github.com/trainctl/trainctl/core/base/system"
