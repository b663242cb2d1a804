package rank

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
)

// The handshake, all parts of fixed size:
//
//	client → server   magic, client's nonce
//	server → client   magic, server's nonce, HMAC(secret, "server", nonces)
//	client → server   HMAC(secret, "client", nonces)
//
// The labels keep a proof from being played back at its maker.

const (
	magic     = "tctlrdz1"
	nonceSize = 32
	proofSize = sha256.Size
)

// NewSecret draws a job's secret.
func NewSecret() []byte {
	s := make([]byte, 32)
	rand.Read(s) // never fails
	return s
}

// DeriveSecret is the stand-in where the starter hands out no secret. It keeps
// jobs with different run ids apart; it protects from nobody.
func DeriveSecret(runID string) []byte {
	h := sha256.Sum256([]byte("trainctl run id\x00" + runID))
	return h[:]
}

func proof(secret []byte, label string, client, server []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(label))
	m.Write(client)
	m.Write(server)
	return m.Sum(nil)
}

func newNonce() []byte {
	n := make([]byte, nonceSize)
	rand.Read(n)
	return n
}

// proveClient runs the client's side. ErrNotThisJob means that the other side
// answered, but not as this job's store.
func proveClient(c io.ReadWriter, secret []byte) error {
	mine := newNonce()
	if _, err := c.Write(append([]byte(magic), mine...)); err != nil {
		return err
	}
	answer := make([]byte, len(magic)+nonceSize+proofSize)
	if n, err := io.ReadFull(c, answer); err != nil {
		return fmt.Errorf("%w: handshake ended after %d bytes: %w", ErrNotThisJob, n, err)
	}
	theirs := answer[len(magic) : len(magic)+nonceSize]
	given := answer[len(magic)+nonceSize:]
	if string(answer[:len(magic)]) != magic || !hmac.Equal(given, proof(secret, "server", mine, theirs)) {
		return ErrNotThisJob
	}
	_, err := c.Write(proof(secret, "client", mine, theirs))
	return err
}

// proveServer runs the server's side; its error says what the stranger did.
func proveServer(c io.ReadWriter, secret []byte) error {
	word := make([]byte, len(magic))
	if n, err := io.ReadFull(c, word); err != nil {
		return fmt.Errorf("handshake ended after %d bytes: %w", n, err)
	}
	if string(word) != magic {
		return fmt.Errorf("speaks another protocol (began with %q)", word)
	}
	theirs, mine := make([]byte, nonceSize), newNonce()
	if _, err := io.ReadFull(c, theirs); err != nil {
		return fmt.Errorf("handshake ended before its nonce: %w", err)
	}
	answer := append(append([]byte(magic), mine...), proof(secret, "server", theirs, mine)...)
	if _, err := c.Write(answer); err != nil {
		return err
	}
	given := make([]byte, proofSize)
	if _, err := io.ReadFull(c, given); err != nil {
		return fmt.Errorf("did not prove that it knows the job's secret: %w", err)
	}
	if !hmac.Equal(given, proof(secret, "client", theirs, mine)) {
		return fmt.Errorf("does not know the job's secret")
	}
	return nil
}
