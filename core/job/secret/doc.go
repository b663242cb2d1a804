// Package secret keeps what the processes of a job know and others do not, and
// derives their keys from it.
//
// A job over several hosts is given its secret, in the environment (Env) or in
// a file (ReadFile). Take reads the environment when a process begins and
// removes the secret from it, so that no child inherits it. A launcher hands its
// ranks theirs through a pipe (Pipe). Nothing else of a secret leaves a process:
// keys are derived from it (Secret.Key), one for each purpose, and a Secret
// prints itself as "(hidden)".
//
// It imports core/base/usererr. Start with secret.go.
package secret
