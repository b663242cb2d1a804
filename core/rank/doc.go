// Package rank answers two questions for a process of a job: who am I, and
// where are the others.
//
// Who am I: FromEnv reads the environment that the starter of the job left
// (trainctl's own launcher, torchrun, SLURM, Open MPI, MPICH, Horovod) and
// returns a World. The sets are tried in that order and the first complete one
// wins; Explain shows them all.
//
// Where are the others: Join connects the process to the job's Store, a small
// key-value service over TCP that one process of the job hosts. Ranks
// exchange what they need to find each other through it (Exchange), wait for
// each other (Barrier), and learn who is missing when somebody is
// (TimeoutError) or dead (PeerLeftError). No tensor ever passes through it.
//
// A process that uses this package, in order:
//
//	w, err := rank.FromEnv(os.LookupEnv)
//	store, err := rank.Join(ctx, w, rank.JoinOptions{})
//	defer store.Close()
//	all, err := rank.Exchange(ctx, store, "endpoints", w.Rank, w.Size, mine)
//
// # Trust
//
// Every connection to a store starts with a challenge in both directions: each
// side proves with an HMAC over two fresh nonces that it knows the job's
// secret, before the other parses anything it says. The launcher draws the
// secret at random and hands it to its workers in TRAINCTL_JOB_SECRET. Without
// one, as under torchrun, the secret is derived from the run id; that keeps
// two jobs from mixing by accident and stops nobody who knows the run id.
// What follows the handshake is neither encrypted nor signed: the store
// belongs on a network whose hosts are trusted.
package rank
